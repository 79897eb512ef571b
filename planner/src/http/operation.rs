//! Operations of the API: a route with its description. [`Routes::add`] takes both, so that a route without its
//! description does not compile; [`super::openapi`] makes the document of them.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};
use schemars::{Schema, SchemaGenerator};

use super::{App, authentication};

/// Returns the schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// One operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) method: OperationMethod,
    /// Path, with the parameters of [`PATH_PARAMETERS`] in braces.
    pub(super) path: &'static str,
    /// Unique id.
    pub(super) id: &'static str,
    /// Summary, in one line.
    pub(super) summary: &'static str,
    /// Description.
    pub(super) description: &'static str,
    /// Key that a request needs.
    pub(super) access: Access,
    /// Inline schema of the query, an object with the parameters.
    pub(super) query: Option<SchemaOf>,
    /// Names and descriptions of the request's headers, beside those of all operations.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) body: Option<RequestBody>,
    /// Answers to valid requests.
    pub(super) answers: &'static [Answer],
    /// Status and description of the problems that others than [`Operation::common_problems`] are.
    pub(super) problems: &'static [(u16, &'static str)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationMethod {
    Get,
    Put,
    Post,
    Delete,
}

/// Key that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// None.
    Open,
    /// One of the service in the path.
    Service,
    /// One with `write`, of the service in the path or of all services.
    Write,
    /// One of the stage in the path, or of its service.
    Stage,
    /// Any.
    AnyKey,
}

/// Body of a request.
#[derive(Debug)]
pub(super) struct RequestBody {
    pub(super) description: &'static str,
    pub(super) schema: SchemaOf,
}

/// Answer to a valid request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) description: &'static str,
    pub(super) content: Content,
}

/// Content of an answer.
#[derive(Debug)]
pub(super) enum Content {
    None,
    Text,
    Json(SchemaOf),
    /// Server-sent events with such data.
    EventStream(SchemaOf),
}

/// Parameters of paths, with their descriptions and schemas.
pub(super) const PATH_PARAMETERS: [(&str, &str, SchemaOf); 2] = [
    (
        "service",
        "Name of the service; for a poll also of one stage of a pipeline.",
        <String as schemars::JsonSchema>::json_schema,
    ),
    (
        "revision",
        "Revision of the plan, or `current`.",
        <String as schemars::JsonSchema>::json_schema,
    ),
];

impl OperationMethod {
    /// Returns the key in the document.
    pub(super) const fn key(self) -> &'static str {
        match self {
            OperationMethod::Get => "get",
            OperationMethod::Put => "put",
            OperationMethod::Post => "post",
            OperationMethod::Delete => "delete",
        }
    }

    fn route<H, T>(self, handler: H) -> MethodRouter<Arc<App>>
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        match self {
            OperationMethod::Get => get(handler),
            OperationMethod::Put => put(handler),
            OperationMethod::Post => post(handler),
            OperationMethod::Delete => delete(handler),
        }
    }
}

impl Access {
    /// Requires the key before the request reaches its handler.
    fn guard(self, route: MethodRouter<Arc<App>>, app: &Arc<App>) -> MethodRouter<Arc<App>> {
        let app = Arc::clone(app);
        match self {
            Access::Open => route,
            Access::Service => route.layer(from_fn_with_state(app, authentication::service_key)),
            Access::Write => route.layer(from_fn_with_state(app, authentication::write_key)),
            Access::Stage => route.layer(from_fn_with_state(app, authentication::stage_key)),
            Access::AnyKey => route.layer(from_fn_with_state(app, authentication::any_key)),
        }
    }
}

impl Operation {
    /// Returns the parameters of its path.
    pub(super) fn path_parameters(
        &self,
    ) -> impl Iterator<Item = &'static (&'static str, &'static str, SchemaOf)> {
        const { &PATH_PARAMETERS }
            .iter()
            .filter(|(name, ..)| self.path.contains(&format!("{{{name}}}")))
    }

    /// Returns status and description of the problems that follow from path, query and key.
    pub(super) fn common_problems(&self) -> impl Iterator<Item = (u16, &'static str)> {
        let keyed = self.access != Access::Open;
        let of_service = self.path.contains("{service}");
        [
            (
                of_service || self.query.is_some(),
                (400, "A parameter is not valid."),
            ),
            (keyed, (401, "No valid key.")),
            (
                // Every key opens plans, if not with a proxy's name.
                keyed && self.access != Access::Stage,
                (403, "The key is limited to less."),
            ),
            (of_service, (404, "No such service is planned for here.")),
            (
                true,
                (
                    503,
                    "Not answered in time, or all places of connections with a key are taken; retry after \
                     `retry-after` seconds.",
                ),
            ),
        ]
        .into_iter()
        .filter_map(|(holds, problem)| holds.then_some(problem))
    }

    /// Whether an answer may have this status.
    #[cfg(test)]
    pub(super) fn may_answer(&self, status: u16) -> bool {
        let answers = self.answers.iter().map(|answer| answer.status);
        let problems = self.problems.iter().map(|(status, _)| *status);
        let common = self.common_problems().map(|(status, _)| status);
        answers
            .chain(problems)
            .chain(common)
            .any(|one| one == status)
    }
}

/// Routes with their descriptions.
pub(super) struct Routes {
    app: Arc<App>,
    router: Router<Arc<App>>,
    operations: Vec<&'static Operation>,
}

impl Routes {
    pub(super) fn new(app: &Arc<App>) -> Routes {
        Routes {
            app: Arc::clone(app),
            router: Router::new(),
            operations: Vec::new(),
        }
    }

    /// Adds an operation that `handler` answers.
    #[must_use]
    pub(super) fn add<H, T>(mut self, operation: &'static Operation, handler: H) -> Routes
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let route = operation.method.route(handler);
        let route = operation.access.guard(route, &self.app);
        #[cfg(test)]
        let route = documented(operation, route);
        self.router = self.router.route(operation.path, route);
        self.operations.push(operation);
        self
    }

    /// Returns the router, and the operations in the order in which they were added.
    pub(super) fn finish(self) -> (Router<Arc<App>>, Vec<&'static Operation>) {
        (self.router, self.operations)
    }
}

/// Every test of an operation checks that the document has the status of its answer.
#[cfg(test)]
fn documented(
    operation: &'static Operation,
    route: MethodRouter<Arc<App>>,
) -> MethodRouter<Arc<App>> {
    let check = move |response: axum::response::Response| async move {
        let status = response.status().as_u16();
        assert!(
            operation.may_answer(status),
            "{} has no status {status}",
            operation.id
        );
        response
    };
    route.layer(axum::middleware::map_response(check))
}
