//! Ports for what tests start.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below the ports that connections take for themselves: one that waits for a server there would find itself, or another test's server.
const PORTS: std::ops::Range<u16> = 10_240..32_768;

/// What says that a port is taken, for as long as this process lives.
static TAKEN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port that no other test gets, of whatever process, while this process lives: each is taken under a name that one alone can have.
pub fn free_port() -> u16 {
    let mut random = fastrand::Rng::new();
    loop {
        let port = random.u16(PORTS);
        let name = SocketAddr::from_abstract_name(format!("touchstone port {port}")).unwrap();
        let Ok(taken) = UnixListener::bind_addr(&name) else {
            continue;
        };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            TAKEN.lock().unwrap().push(taken);
            return port;
        }
    }
}
