//! Concurrent listings. Knows no real transport.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use tokio::sync::oneshot;

use super::*;
use crate::tool::RawTool;
use crate::transport::{BoxFuture, TransportConfig};

/// A server that has one more tool on each listing, and answers on command.
#[derive(Debug, Default)]
struct Server {
    says: Mutex<VecDeque<oneshot::Receiver<()>>>,
    has: AtomicU64,
    changed: AtomicBool,
}

impl Transport for Server {
    fn take_list_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<RawTool>, WorldFault>> {
        let count = 1 + self.has.fetch_add(1, Ordering::Relaxed);
        let told = self.says.lock().unwrap().pop_front().unwrap();
        Box::pin(async move {
            told.await
                .map_err(|_| WorldFault::unavailable("it hung up"))?;
            let tools = (1..=count).map(|number| {
                let name = format!("t{number}");
                RawTool::read(serde_json::json!({ "name": name, "inputSchema": {} })).unwrap()
            });
            Ok(tools.collect())
        })
    }

    fn call<'a>(
        &'a self,
        _: Outgoing<'a>,
        _: CallLimits,
    ) -> BoxFuture<'a, Result<Answer, WorldFault>> {
        Box::pin(async { Ok(Answer::None) })
    }
}

#[derive(Clone, Debug)]
struct Config(Arc<Server>);

impl TransportConfig for Config {
    fn transport(&self, _: TransportContext) -> Arc<dyn Transport> {
        self.0.clone()
    }
}

/// The number of known tools after two concurrent listings with a change in between, which end in the given order and of which the later
/// one may fail; and the number after a third listing.
async fn tools_after_two_listings(later_first: bool, later_fails: bool) -> (usize, usize) {
    let server = Arc::new(Server::default());
    let [first_told, second_told, third_told] = [(); 3].map(|()| {
        let (told, says) = oneshot::channel();
        server.says.lock().unwrap().push_back(says);
        told
    });
    let config = UpstreamConfig {
        name: "s".into(),
        description: String::new(),
        capabilities: Vec::new(),
        transport: Box::new(Config(server.clone())),
    };
    let redactor = Redactor::builder().build();
    let upstream = Upstream::new(
        config,
        AuthHeaders::default(),
        &redactor,
        &Platform::default(),
    );
    let upstream = Arc::new(upstream);
    let ask = || {
        let upstream = upstream.clone();
        tokio::spawn(async move { upstream.ensure_tools(true).await.map(drop) })
    };
    let count = || {
        let tools = upstream.tools();
        let has = |number: &usize| {
            let name = format!("t{number}");
            tools
                .as_ref()
                .is_some_and(|tools| tools.raw(&name).is_some())
        };
        (1..4).take_while(has).count()
    };
    let first = ask();
    tokio::task::yield_now().await;
    server.changed.store(true, Ordering::Relaxed);
    let second = ask();
    tokio::task::yield_now().await;
    let end_second = async {
        match later_fails {
            true => drop(second_told),
            false => second_told.send(()).unwrap(),
        }
        assert_eq!(second.await.unwrap().is_err(), later_fails);
    };
    let end_first = async {
        first_told.send(()).unwrap();
        assert!(first.await.unwrap().is_ok());
    };
    match later_first {
        true => {
            end_second.await;
            end_first.await;
        }
        false => {
            end_first.await;
            end_second.await;
        }
    }
    let known = count();
    third_told.send(()).unwrap();
    assert!(ask().await.unwrap().is_ok());
    (known, count())
}

#[test]
fn newer_tool_list_wins() {
    let executor = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let listed =
        |later_first, fails| executor.block_on(tools_after_two_listings(later_first, fails));
    assert_eq!(listed(false, false), (2, 2));
    assert_eq!(listed(true, false), (2, 2));
    // A failed listing is requested again.
    assert_eq!(listed(false, true), (1, 3));
    assert_eq!(listed(true, true), (1, 3));
}
