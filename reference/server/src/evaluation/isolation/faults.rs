//! Faults that a process commits when a program asks for them, so that tests can observe the consequences. Release builds do not contain
//! them: there `;; fault:` is an ordinary comment.

#[cfg(debug_assertions)]
use super::frames::{self, HostRequest, RunEnd, RunResult, ToServer};

/// Commits the fault that the first line of `program` names, `;; fault: NAME`. Returns the result of an attempt that came back.
#[cfg(debug_assertions)]
pub fn inject(program: &str) -> Option<String> {
    let line = program.lines().next().unwrap_or_default();
    let tried: std::io::Result<()> = match line.strip_prefix(";; fault: ") {
        Some("segv") => segv(),
        Some("spin") => loop {
            std::hint::spin_loop();
        },
        Some("memory") => memory(),
        Some("panic") => panic!("asked for by a test"),
        Some("exit") => std::process::exit(3),
        Some("garbage") => garbage(&[0xff; 64]),
        Some("endless") => garbage(&[0, 0, 0, 0x7f]),
        Some("deaf") => loop {
            send(&ToServer::Ask {
                number: 0,
                question: HostRequest::Now,
            });
        },
        Some("lazy") => slow_reader(),
        Some("names") => many_names(),
        Some("open") => std::fs::File::open("/etc/hostname").map(drop),
        Some("proc") => std::fs::File::open("/proc/self/status").map(drop),
        Some("socket") => std::net::UdpSocket::bind("127.0.0.1:0").map(drop),
        Some("connect") => std::net::TcpStream::connect("127.0.0.1:9").map(drop),
        Some("exec") => nix::unistd::execv(c"/bin/true", &[c"true"])
            .map(drop)
            .map_err(std::io::Error::from),
        Some("spawn") => std::process::Command::new("/bin/true").spawn().map(drop),
        Some("kill") => {
            // Which process it is does not matter.
            let own = nix::unistd::getpid();
            nix::sys::signal::kill(own, None).map_err(std::io::Error::from)
        }
        Some("environment") => {
            return Some(format!("tried: {:?}", std::env::vars().collect::<Vec<_>>()));
        }
        _ => return None,
    };
    Some(match tried {
        Ok(()) => "tried: allowed".to_owned(),
        Err(error) => format!("tried: {:?}", error.raw_os_error()),
    })
}

/// Release builds commit no faults.
#[cfg(not(debug_assertions))]
pub fn inject(_: &str) -> Option<String> {
    None
}

/// Raises the signal of a wild access. The first one goes to the handler that detects stack overflow, which then uninstalls itself.
#[cfg(debug_assertions)]
fn segv() -> ! {
    loop {
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSEGV);
    }
}

/// Allocates until memory runs out.
#[cfg(debug_assertions)]
fn memory() -> ! {
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        held.push(vec![1; 1 << 20]);
    }
}

/// Reports its end, and then reads just enough to keep a writer from giving up.
#[cfg(debug_assertions)]
fn slow_reader() -> ! {
    send(&ToServer::Done(empty_result()));
    let mut some = vec![0; 160 << 10];
    loop {
        let _ = nix::unistd::read(std::io::stdin(), &mut some);
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
}

/// The end of a program that left nothing, not even a value.
#[cfg(debug_assertions)]
fn empty_result() -> RunResult {
    RunResult {
        end: RunEnd::Value,
        left: Vec::new(),
        changed: String::new(),
    }
}

/// Reports as many changed definitions as fit into a frame, all with empty names.
#[cfg(debug_assertions)]
fn many_names() -> ! {
    const NAMES: u32 = 14 << 20;
    let mut bytes = frames::encode(&ToServer::Done(empty_result())).unwrap_or_default();
    bytes.pop();
    bytes.push(0x9a);
    bytes.extend(NAMES.to_be_bytes());
    bytes.resize(bytes.len() + NAMES as usize, 0x60);
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    send_bytes(&bytes);
    garbage(&[])
}

#[cfg(debug_assertions)]
fn send(frame: &ToServer) {
    send_bytes(&frames::encode(frame).unwrap_or_default());
}

#[cfg(debug_assertions)]
fn send_bytes(mut rest: &[u8]) {
    while let Ok(written @ 1..) = nix::unistd::write(std::io::stdin(), rest) {
        rest = &rest[written..];
    }
}

/// Sends bytes that are not a frame, and waits.
#[cfg(debug_assertions)]
fn garbage(bytes: &[u8]) -> ! {
    let _ = nix::unistd::write(std::io::stdin(), bytes);
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}
