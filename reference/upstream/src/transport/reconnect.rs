//! A transport over connections that end: opened when first needed, and reopened after a recovery window. Knows nothing of
//! the messages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ptc_secrets::Redactor;
use tokio::time::Instant;

use super::{Answer, BoxFuture, CallLimits, Outgoing, Transport};
use crate::fault::WorldFault;
use crate::limits::{RECOVERY_FIRST, RECOVERY_LONGEST};
use crate::tool::RawTool;

/// Opens connections to one upstream.
pub(crate) trait Connector: Send + Sync + 'static {
    type Connection: Connection;

    fn open(&self, name: &str)
    -> impl Future<Output = Result<Self::Connection, WorldFault>> + Send;
}

/// A live connection to one upstream.
pub(crate) trait Connection: Send + Sync + 'static {
    fn list_tools(&self) -> impl Future<Output = Result<Vec<RawTool>, WorldFault>> + Send;

    /// `tools/call`
    fn call(
        &self,
        call: Outgoing<'_>,
        limits: CallLimits,
    ) -> impl Future<Output = Result<Answer, WorldFault>> + Send;

    /// When the connection ended; `None` while it is alive.
    fn ended(&self) -> Option<Instant> {
        None
    }

    /// Whether the upstream reported a change of its tools since the last call of this method.
    fn take_list_changed(&self) -> bool;

    fn close(&self) -> impl Future<Output = ()> + Send;
}

pub(crate) struct Reconnecting<C: Connector> {
    name: String,
    redactor: Redactor,
    connect: C,
    state: Mutex<ConnectionState<C::Connection>>,
    /// Held while connecting, so that concurrent callers start only one child.
    connecting: tokio::sync::Mutex<()>,
}

enum ConnectionState<C> {
    Idle,
    Ready(Arc<C>),
    Recovering { until: Instant, window: Duration },
}

impl<C: Connector> Reconnecting<C> {
    pub fn new(name: String, redactor: Redactor, connect: C) -> Self {
        Self {
            name,
            redactor,
            connect,
            state: Mutex::new(ConnectionState::Idle),
            connecting: tokio::sync::Mutex::new(()),
        }
    }

    fn ready(&self) -> Option<Arc<C::Connection>> {
        match &*lock(&self.state) {
            ConnectionState::Ready(connection) if connection.ended().is_none() => {
                Some(Arc::clone(connection))
            }
            _ => None,
        }
    }

    /// The live connection; opens one unless the upstream is in its recovery window.
    async fn connection(&self) -> Result<Arc<C::Connection>, WorldFault> {
        if let Some(connection) = self.ready() {
            return Ok(connection);
        }
        let _alone = self.connecting.lock().await;
        if let Some(connection) = self.ready() {
            return Ok(connection);
        }
        let window = enter_recovery(&mut lock(&self.state))?;
        let opened = self.connect.open(&self.name).await;
        let server = self.name.as_str();
        let mut state = lock(&self.state);
        match opened {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *state = ConnectionState::Ready(Arc::clone(&connection));
                if window.is_some() {
                    tracing::info!(event = "upstream_restarted", server);
                }
                Ok(connection)
            }
            Err(fault) => {
                let message = fault.log_message(&self.redactor);
                tracing::warn!(event = "upstream_start_failed", server, message);
                // A failed first start sets no window: nothing has crashed, and the cause may be fixed before the next call.
                if let Some(window) = window {
                    let window = (window * 2).min(RECOVERY_LONGEST);
                    *state = ConnectionState::Recovering {
                        until: Instant::now() + window,
                        window,
                    };
                }
                Err(fault)
            }
        }
    }
}

impl<C: Connector> Transport for Reconnecting<C> {
    fn take_list_changed(&self) -> bool {
        self.ready()
            .is_some_and(|connection| connection.take_list_changed())
    }

    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<RawTool>, WorldFault>> {
        Box::pin(async { self.connection().await?.list_tools().await })
    }

    fn call<'a>(
        &'a self,
        call: Outgoing<'a>,
        limits: CallLimits,
    ) -> BoxFuture<'a, Result<Answer, WorldFault>> {
        Box::pin(async move {
            let late = |_| {
                let name = &self.name;
                WorldFault::unavailable(format!("upstream {name} did not start in time"))
            };
            let opened = tokio::time::timeout(limits.remaining(), self.connection());
            let connection = opened.await.map_err(late)??;
            connection.call(call, limits).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let before = std::mem::replace(&mut *lock(&self.state), ConnectionState::Idle);
        Box::pin(async move {
            if let ConnectionState::Ready(connection) = before {
                connection.close().await;
            }
        })
    }
}

/// Moves a connection that ended into its recovery window, and refuses inside the window. Otherwise the upstream may be
/// started; the value is the window that was last waited for, if any.
fn enter_recovery<C: Connection>(
    state: &mut ConnectionState<C>,
) -> Result<Option<Duration>, WorldFault> {
    if let ConnectionState::Ready(connection) = state {
        let ended = connection.ended().unwrap_or_else(Instant::now);
        *state = ConnectionState::Recovering {
            until: ended + RECOVERY_FIRST,
            window: RECOVERY_FIRST,
        };
    }
    match state {
        ConnectionState::Recovering { until, window } if Instant::now() >= *until => {
            Ok(Some(*window))
        }
        ConnectionState::Recovering { .. } => Err(WorldFault::unavailable("in recovery")),
        _ => Ok(None),
    }
}

fn lock<C>(state: &Mutex<ConnectionState<C>>) -> MutexGuard<'_, ConnectionState<C>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
