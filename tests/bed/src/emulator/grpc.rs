//! Endpoint for the Open Inference Protocol v2 over gRPC: single requests or a stream of them.
//!
//! It only translates. The gRPC deadline is recorded and otherwise ignored, as by most model
//! servers.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use futures_util::{Stream, stream};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use super::http::{BODY_MAX, execution_details};
use super::journal::{Door, Execution, RequestInfo};
use super::padding;
use super::server::Server;
use super::work::{Refused, Work};
use crate::oip;

type Shared = State<Arc<Server>>;

pub(super) fn routes() -> Router<Arc<Server>> {
    let path = |method: &str| format!("/{}/{method}", oip::SERVICE);
    Router::new()
        .route(&path("ServerLive"), post(server_live))
        .route(&path("ServerReady"), post(server_ready))
        .route(&path("ModelReady"), post(model_ready))
        .route(&path("ServerMetadata"), post(server_metadata))
        .route(&path("ModelMetadata"), post(model_metadata))
        .route(&path("ModelInfer"), post(model_infer))
        .route(&path("ModelStreamInfer"), post(model_stream_infer))
}

fn grpc<Q, A>() -> tonic::server::Grpc<ProstCodec<A, Q>>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
{
    tonic::server::Grpc::new(ProstCodec::default()).max_decoding_message_size(BODY_MAX)
}

/// Decodes one message, calls `method`, and encodes the response or the status.
async fn unary<Q, A, F>(request: Request, method: impl Fn(HeaderMap, Q) -> F) -> Response
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
    F: Future<Output = Result<A, Status>>,
{
    let service = tower::service_fn(|call: tonic::Request<Q>| {
        let headers = call.metadata().clone().into_headers();
        let answer = method(headers, call.into_inner());
        async { answer.await.map(tonic::Response::new) }
    });
    let answer = grpc::<Q, A>().unary(service, request).await;
    answer.map(Body::new)
}

async fn server_live(request: Request) -> Response {
    unary(request, async |_, _: oip::ServerLiveRequest| {
        Ok(oip::ServerLiveResponse { live: true })
    })
    .await
}

async fn server_ready(State(server): Shared, request: Request) -> Response {
    unary(request, async |_, _: oip::ServerReadyRequest| {
        let ready = server.is_ready();
        Ok(oip::ServerReadyResponse { ready })
    })
    .await
}

async fn model_ready(State(server): Shared, request: Request) -> Response {
    unary(request, async |_, message: oip::ModelRequest| {
        known(&server, &message.name)?;
        let ready = server.is_ready();
        Ok(oip::ModelReadyResponse { ready })
    })
    .await
}

async fn server_metadata(request: Request) -> Response {
    unary(request, async |_, _: oip::ServerMetadataRequest| {
        Ok(oip::ServerMetadataResponse {
            name: "weir-variant-emulator".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: Vec::new(),
        })
    })
    .await
}

async fn model_metadata(State(server): Shared, request: Request) -> Response {
    unary(request, async |_, message: oip::ModelRequest| {
        known(&server, &message.name)?;
        let tensor = |name: &str, datatype: &str, shape| oip::TensorMetadata {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: vec![shape],
        };
        Ok(oip::ModelMetadataResponse {
            name: server.model().to_owned(),
            versions: vec!["1".to_owned()],
            platform: "emulated".to_owned(),
            inputs: vec![tensor("input", "BYTES", -1)],
            outputs: vec![tensor("bytes", "UINT64", 1), tensor("crc32", "UINT32", 1)],
        })
    })
    .await
}

async fn model_infer(State(server): Shared, request: Request) -> Response {
    unary(request, async |headers, message| {
        infer(&server, Door::OipGrpc, &headers, message).await
    })
    .await
}

async fn model_stream_infer(State(server): Shared, request: Request) -> Response {
    let service = tower::service_fn(|call: tonic::Request<Streaming<oip::ModelInferRequest>>| {
        let headers = call.metadata().clone().into_headers();
        let answers = answers(Arc::clone(&server), headers, call.into_inner());
        async { Ok::<_, Status>(tonic::Response::new(answers)) }
    });
    let codec = grpc::<oip::ModelInferRequest, oip::ModelStreamInferResponse>;
    codec().streaming(service, request).await.map(Body::new)
}

/// Answers each request of a stream before reading the next. A failed request does not end the
/// stream.
fn answers(
    server: Arc<Server>,
    headers: HeaderMap,
    requests: Streaming<oip::ModelInferRequest>,
) -> impl Stream<Item = Result<oip::ModelStreamInferResponse, Status>> + Send {
    stream::unfold(
        (server, headers, requests),
        async |(server, headers, mut requests)| {
            let request = match requests.message().await {
                Ok(request) => request?,
                Err(status) => return Some((Err(status), (server, headers, requests))),
            };
            let answer = infer(&server, Door::OipGrpcStream, &headers, request).await;
            let answer = match answer {
                Ok(answer) => oip::ModelStreamInferResponse {
                    infer_response: Some(answer),
                    ..Default::default()
                },
                Err(status) => oip::ModelStreamInferResponse {
                    error_message: status.message().to_owned(),
                    ..Default::default()
                },
            };
            Some((Ok(answer), (server, headers, requests)))
        },
    )
}

async fn infer(
    server: &Server,
    door: Door,
    headers: &HeaderMap,
    request: oip::ModelInferRequest,
) -> Result<oip::ModelInferResponse, Status> {
    known(server, &request.model_name)?;
    let at_least = padding::requested(headers)?;
    let work = Work::queue(server, RequestInfo::of(door, headers), false)?;
    let execution = work.ended().await?;
    let next = match server.next() {
        Some(next) => Some(next.infer(headers, request.clone()).await?),
        None => None,
    };
    let mut answer = answer(server, &request, &execution);
    if at_least > 0 {
        answer.outputs.push(oip::Tensor {
            name: "padding".to_owned(),
            datatype: "UINT8".to_owned(),
            shape: vec![i64::try_from(at_least).unwrap_or(i64::MAX)],
            ..Default::default()
        });
        answer.raw_output_contents.push(vec![0; at_least]);
    }
    if let Some(next) = next {
        let name = oip::Parameter::Text(next.model_name);
        let name = oip::InferParameter { choice: Some(name) };
        answer.parameters.insert("next".to_owned(), name);
    }
    Ok(answer)
}

fn answer(
    server: &Server,
    request: &oip::ModelInferRequest,
    execution: &Execution,
) -> oip::ModelInferResponse {
    let raw = request.raw_input_contents.concat();
    let tensor = |name: &str, datatype: &str| oip::Tensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: vec![1],
        ..Default::default()
    };
    let id = if request.id.is_empty() {
        &execution.request_id
    } else {
        &request.id
    };
    oip::ModelInferResponse {
        model_name: server.model().to_owned(),
        model_version: "1".to_owned(),
        id: id.clone(),
        parameters: execution_details(execution)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), parameter(&value)))
            .collect(),
        outputs: vec![tensor("bytes", "UINT64"), tensor("crc32", "UINT32")],
        raw_output_contents: vec![
            (raw.len() as u64).to_le_bytes().to_vec(),
            crc32fast::hash(&raw).to_le_bytes().to_vec(),
        ],
    }
}

fn parameter(value: &serde_json::Value) -> oip::InferParameter {
    use oip::Parameter;
    let choice = match (value.as_bool(), value.as_i64(), value.as_f64()) {
        (Some(value), _, _) => Parameter::Bool(value),
        (_, Some(value), _) => Parameter::Int64(value),
        (_, _, Some(value)) => Parameter::Double(value),
        _ => Parameter::Text(value.to_string()),
    };
    let choice = Some(choice);
    oip::InferParameter { choice }
}

fn known(server: &Server, model: &str) -> Result<(), Status> {
    if server.serves(model) {
        return Ok(());
    }
    Err(Refused::unknown(model).into())
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Status {
        let code = match refused.status.as_u16() {
            404 => Code::NotFound,
            503 => Code::Unavailable,
            _ => Code::Internal,
        };
        Status::new(code, refused.message)
    }
}
