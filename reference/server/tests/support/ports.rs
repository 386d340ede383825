//! Ports for servers that tests start.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below the ephemeral ports: a client that waits for a server on an ephemeral port could connect to itself, or to another test's server.
const PORTS: std::ops::Range<u16> = 10_240..32_768;

/// Reservations of ports, held for as long as this process lives.
static TAKEN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port that no other test gets, in any process, while this process lives: each port is reserved under a name that only one process can
/// bind.
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
