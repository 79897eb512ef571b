//! Catalog of the services of a standalone planner: how one is created, replaced and deleted while the planner runs. One
//! change at a time, so that every check is of the services that are there.
//!
//! The files are the truth. A change is checked as at start, then written, and only then planned by: a planner that ends
//! in between begins with the files as they are.
//!
//! - *Created*: its file is written whole, then its control loop starts.
//! - *Replaced*: its file is replaced whole; its next control loop begins at the end of the running cycle.
//! - *Deleted*: its file is renamed first, the one step that may fail. Then it is out of the registry, its polls and streams
//!   end, its control loop ends after the running cycle, and what was kept of its load is removed.
//!
//! Servers that a change leaves without a service count on in their shared budget ([`LeftServers`]).

mod claims;
mod error;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::clock::Clock;
use crate::mode::ModeSwitch;
use crate::registry::{ServiceHandle, ServiceRegistry};
use crate::service::rule::{refusal, valid_name};
use crate::service::{ConfigError, Service, Variant};
use crate::shared_budget::{Left, SharedBudgets};
use crate::spec::KeySource;
use crate::specification::{
    ServiceFolder, Specification, SpecificationSource, WritableFile, read_new,
};
pub(crate) use claims::Claims;
pub use error::CatalogError;

/// Maximum number of services of one planner; a filter has as many.
pub const SERVED_MAX: usize = 64;

/// Source of the services.
#[derive(Debug)]
pub enum ServiceSource {
    /// Resources of Kubernetes.
    Resources,
    /// Files that are named, or that are only read.
    Files,
    /// All files of a folder, which may be written.
    Folder(ServedFolder),
}

/// Folder whose services are created and deleted, and what all of them have in common.
#[derive(Debug)]
pub struct ServedFolder {
    /// The folder.
    pub folder: ServiceFolder,
    /// Address in the files.
    pub listen: SocketAddr,
    /// Place of the keys in the files.
    pub key: KeySource,
}

/// Servers that no service has any more, in the shared budget that they had a part of.
#[derive(Debug)]
pub struct LeftServers {
    /// Their place in the budget.
    pub(crate) place: Left,
    /// The service with the variants of these servers alone. No control loop changes them any more.
    pub(crate) service: Service,
}

/// Service whose specification may be replaced, its specification, and its file.
pub(crate) type WritableService = (Arc<ServiceHandle>, Arc<Specification>, Arc<WritableFile>);

/// Services of a planner, and their source.
#[derive(Debug)]
pub struct Catalog {
    registry: Arc<ServiceRegistry>,
    clock: Clock,
    source: ServiceSource,
    budgets: Arc<SharedBudgets>,
    /// Folder in which what is known of the loads is kept.
    state: Option<PathBuf>,
    changing: tokio::sync::Mutex<()>,
    left: Mutex<Vec<LeftServers>>,
    changed: Notify,
}

impl Catalog {
    /// Creates the catalog of the services in `registry`.
    pub fn new(
        registry: Arc<ServiceRegistry>,
        clock: Clock,
        source: ServiceSource,
        budgets: Arc<SharedBudgets>,
        state: Option<PathBuf>,
    ) -> Catalog {
        Catalog {
            registry,
            clock,
            source,
            budgets,
            state,
            changing: tokio::sync::Mutex::default(),
            left: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Creates the catalog of services that follow resources.
    pub fn of_resources(registry: Arc<ServiceRegistry>, clock: Clock) -> Catalog {
        Catalog::new(
            registry,
            clock,
            ServiceSource::Resources,
            Arc::default(),
            None,
        )
    }

    /// Returns the folder in which a service of that name may be created.
    ///
    /// # Errors
    /// The reason why it may not.
    pub(crate) fn creatable(&self, name: &str) -> Result<&ServedFolder, CatalogError> {
        valid_name("service", name).map_err(CatalogError::Name)?;
        self.folder()
    }

    fn folder(&self) -> Result<&ServedFolder, CatalogError> {
        let right = match &self.source {
            ServiceSource::Folder(folder) => return Ok(folder),
            ServiceSource::Resources => "create or delete an SloService",
            ServiceSource::Files => {
                "the planner was started without a folder that it may write; start it with `weir serve DIR --writable`"
            }
        };
        let message = format!("services are not created or deleted here: {right}");
        Err(CatalogError::Conflict(message))
    }

    /// Replaces the specification of a service, if the present one `is_expected`. Returns the new one.
    ///
    /// # Errors
    /// The reason why nothing was changed.
    pub async fn replace(
        &self,
        name: &str,
        text: String,
        is_expected: impl Fn(Option<&Specification>) -> bool,
    ) -> Result<Arc<Specification>, CatalogError> {
        let _changing = self.changing.lock().await;
        let (handle, before, file) = self.writable(name)?;
        let mut content = file.lock().await;
        if !is_expected(Some(&before)) {
            return Err(CatalogError::Stale);
        }
        let (path, sent) = (file.path().to_owned(), text.clone());
        let read = aside(move || before.successor(&sent, &path)).await?;
        let (specification, service) = read?;
        self.check(&service)?;
        if left_out(&handle.service, &service).is_some() {
            self.budgets.check_leave_out(&handle.service)?;
        }
        let mode = ModeSwitch::following((&handle.mode, handle.service.mode), service.mode);
        let next = handle.with_service(service, self.clock)?;
        let next = next.with_specification(specification).with_mode(mode);
        let (written, earlier) = (Arc::clone(&file), content.clone());
        let new = text.clone();
        aside(move || written.replace(&earlier, new.as_bytes())).await??;
        *content = text.into_bytes();
        let written = self.insert(next);
        tracing::info!("{name}: its specification was replaced over REST");
        written
    }

    /// Creates a service, if no service of that name `is_expected`. Returns its specification.
    ///
    /// # Errors
    /// The reason why nothing was created.
    pub async fn create(
        &self,
        name: &str,
        text: String,
        is_expected: impl Fn(Option<&Specification>) -> bool,
    ) -> Result<Arc<Specification>, CatalogError> {
        let _changing = self.changing.lock().await;
        let served = self.creatable(name)?;
        if !is_expected(None) || self.registry.get(name).is_some() {
            return Err(CatalogError::Stale);
        }
        if self.registry.all().len() >= SERVED_MAX {
            let message = format!("{SERVED_MAX} services are planned for here already, no more");
            return Err(CatalogError::Conflict(message));
        }
        let (path, sent) = (served.folder.path(name), text.clone());
        let (spec, file) = aside(move || read_new(&sent, &path)).await??;
        if file.service.name != name {
            let right = format!("{name}, as in the path");
            return Err(refusal("service", &file.service.name, &right).into());
        }
        served.check(file.listen, &file.key)?;
        self.check(&file.service)?;
        let handle = ServiceHandle::new(file.service, self.clock)?;
        handle.mode.allow_changes();
        let (folder, of) = (served.folder.clone(), name.to_owned());
        let written = aside(move || folder.create(&of, text.as_bytes())).await??;
        let source = SpecificationSource::Writable(Arc::new(written));
        let created = self.insert(handle.with_specification(Specification::new(spec, source)));
        tracing::info!("{name}: created over REST");
        created
    }

    /// Deletes a service, if the present specification `is_expected`.
    ///
    /// # Errors
    /// The reason why nothing was deleted.
    pub async fn delete(
        &self,
        name: &str,
        is_expected: impl Fn(Option<&Specification>) -> bool,
    ) -> Result<(), CatalogError> {
        let _changing = self.changing.lock().await;
        let served = self.folder()?;
        let (handle, before, file) = self.writable(name)?;
        if !is_expected(Some(&before)) {
            return Err(CatalogError::Stale);
        }
        if self.registry.all().len() == 1 {
            let message = "it is the planner's last service, whose file says where the planner listens and where its keys \
                           are; create another one before, or end the planner";
            return Err(CatalogError::Conflict(message.to_owned()));
        }
        let content = file.lock().await.clone();
        let deleted = aside(move || file.delete(&content)).await??;
        self.registry.remove(name);
        handle.wait_idle().await;
        let place = self.budgets.leave(&handle.service);
        self.add_left(place, Service::clone(&handle.service));
        let (folder, state, of) = (served.folder.clone(), self.state.clone(), name.to_owned());
        let forget = move || {
            let forgotten = state.map_or(Ok(()), |state| forget_state(&state, &of));
            forgotten.and(folder.forget_deleted())
        };
        if let Err(error) = aside(forget).await? {
            tracing::warn!("{name}: not all that is no longer needed was removed: {error}");
        }
        self.changed.notify_one();
        tracing::info!(
            "{name}: deleted over REST; its file is {} now",
            deleted.display()
        );
        Ok(())
    }

    /// Waits until a service was created or deleted, or servers were left without one.
    pub(crate) async fn wait_changed(&self) {
        self.changed.notified().await;
    }

    /// Counts the servers that a replaced service has left out, between its last control loop and the first of `next`.
    pub(crate) fn leave_out(&self, before: &ServiceHandle, next: &Service) {
        if let Some(service) = left_out(&before.service, next) {
            self.add_left(self.budgets.leave_out(&before.service), service);
            self.changed.notify_one();
        }
    }

    /// Takes the servers that were left without a service since the last call.
    pub(crate) fn take_left(&self) -> Vec<LeftServers> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *left)
    }

    /// Returns the handle, the specification and the file of a service.
    ///
    /// # Errors
    /// There is none of that name, or its file is not writable.
    pub(crate) fn writable(&self, name: &str) -> Result<WritableService, CatalogError> {
        let handle = self.registry.get(name).ok_or(CatalogError::Unknown)?;
        let specification = handle.specification.clone();
        let specification = specification.ok_or(CatalogError::Unknown)?;
        let file = match specification.source() {
            SpecificationSource::Writable(file) => Arc::clone(file),
            SpecificationSource::Resource => {
                let message =
                    "it follows the service's resource; change the spec of the SloService";
                return Err(CatalogError::Conflict(message.to_owned()));
            }
            SpecificationSource::File(path) => {
                let path = path.display();
                let message = format!(
                    "the planner was started without --writable; edit {path}, and start it again"
                );
                return Err(CatalogError::Conflict(message));
            }
        };
        Ok((handle, specification, file))
    }

    /// Checks a service beside all others, itself as it was before left out.
    fn check(&self, service: &Service) -> Result<(), ConfigError> {
        let others = self.registry.all();
        let others = others.iter().map(|handle| &*handle.service);
        let others = others.filter(|other| other.name != service.name);
        let mut claims = Claims::default();
        for other in others {
            claims.add(other, &format!("service {}", other.name))?;
        }
        claims.add(service, "this one")?;
        self.budgets.check(service)
    }

    fn add_left(&self, place: Option<Left>, service: Service) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(place.map(|place| LeftServers { place, service }));
    }

    /// Plans by a handle from now on.
    fn insert(&self, handle: ServiceHandle) -> Result<Arc<Specification>, CatalogError> {
        let specification = handle.specification.clone();
        self.budgets.insert(&handle.service);
        self.registry.insert(Arc::new(handle));
        self.changed.notify_one();
        specification.ok_or(CatalogError::Unknown)
    }
}

impl ServedFolder {
    /// Checks the address and the place of the keys of a file, which all files of the folder have in common.
    fn check(&self, listen: SocketAddr, key: &KeySource) -> Result<(), ConfigError> {
        if listen != self.listen {
            let right = format!("{}, as in the other files of the planner", self.listen);
            return Err(refusal("listen", listen, &right));
        }
        if *key != self.key {
            let right = format!("{}, as in the other files", key_shown(&self.key));
            return Err(refusal("keyEnv, keyFile", key_shown(key), &right));
        }
        Ok(())
    }
}

/// Returns the service with the variants alone whose servers `next` leaves out; `None` if there are none, or if it shares no
/// budget.
fn left_out(before: &Service, next: &Service) -> Option<Service> {
    before.shared.as_ref()?;
    let mut claims = Claims::default();
    claims.add(next, "").ok()?;
    let mut left = before.clone();
    let is_left = |variant: &Variant| Claims::is_any(variant) && !claims.has(variant);
    left.variants.retain(is_left);
    (!left.variants.is_empty()).then_some(left)
}

/// Returns a place of keys, for people.
pub(crate) fn key_shown(key: &KeySource) -> String {
    match key {
        KeySource::Env(name) => format!("keyEnv {name}"),
        KeySource::File(path) => format!("keyFile {}", path.display()),
    }
}

/// Computes or writes on a thread that serves no polls.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CatalogError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| CatalogError::Internal(error.to_string()))
}

/// Removes the files in which what is known of a service's load is kept: another service of that name begins anew.
fn forget_state(folder: &Path, service: &str) -> io::Result<()> {
    // A service's name has no dots.
    let begin = format!("{service}.");
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(&begin) && name.ends_with(".json")) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
