//! How much of the memory available to the server is in use. Knows nothing of calls.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// A mark that memory use should stay below, and the memory that each call needs under the limits of this process.
#[derive(Debug)]
pub struct Watermark {
    percent: u64,
    /// Address space that one call may take; an allocation beyond the process's limit would abort it.
    call_bytes: u64,
    began: Instant,
    /// The time of the last measurement, in milliseconds since `began`.
    looked: AtomicU64,
    over: AtomicBool,
    /// Number of calls that there was memory for at the last measurement.
    calls: AtomicU64,
}

/// How much more native stack is mapped than programs are charged for: stack frames are larger in debug builds.
const STACK_FACTOR: u64 = if cfg!(debug_assertions) { 3 } else { 1 };
/// What a call takes besides the memory of its program and its stack: stacks of threads, its frame and its reply.
const CALL_BYTES: u64 = 48 << 20;
/// Maximum age of a measurement, in milliseconds.
const CHECK_INTERVAL_MS: u64 = 100;

impl Watermark {
    /// A mark at `percent` (100 and above means no mark), for calls of programs that may hold `program_bytes`.
    pub fn with_headroom(percent: u64, program_bytes: u64) -> Watermark {
        Watermark {
            percent,
            call_bytes: match program_bytes {
                0 => 0,
                bytes => bytes
                    .saturating_mul(1 + STACK_FACTOR)
                    .saturating_add(CALL_BYTES),
            },
            calls: AtomicU64::new(u64::MAX),
            began: Instant::now(),
            looked: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Whether memory use is above the mark, or leaves no room for a call besides `running` others. Measures memory only now and then.
    pub fn is_exceeded(&self, running: usize) -> bool {
        if self.percent >= 100 && self.call_bytes == 0 {
            return false;
        }
        // Offset, so that the first call measures, too.
        let now =
            u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX) + CHECK_INTERVAL_MS;
        let looked = self.looked.load(Ordering::Relaxed);
        let due = now - looked.min(now) >= CHECK_INTERVAL_MS;
        let mine = || {
            self.looked
                .compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if due && mine() {
            let over = self.percent < 100 && used_percent().is_some_and(|used| used > self.percent);
            self.over.store(over, Ordering::Relaxed);
            let calls = limited_bytes().and_then(|room| room.checked_div(self.call_bytes));
            // Running calls may have taken their memory already; they are counted as if they had not.
            self.calls
                .store(calls.unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        self.over.load(Ordering::Relaxed) || running as u64 >= self.calls.load(Ordering::Relaxed)
    }
}

/// Bytes that this process may still map under its own limits; `None` if it has no limits.
#[cfg(target_os = "linux")]
fn limited_bytes() -> Option<u64> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
    let limit = |resource| {
        let (soft, _) = getrlimit(resource).ok()?;
        (soft != RLIM_INFINITY).then_some(soft)
    };
    let (space, data) = (limit(Resource::RLIMIT_AS), limit(Resource::RLIMIT_DATA));
    if space.is_none() && data.is_none() {
        return None;
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let room = |limit: Option<u64>, name| {
        let taken = kilobytes(&status, name)?.saturating_mul(1024);
        Some(limit?.saturating_sub(taken))
    };
    let (space, data) = (room(space, "VmSize:"), room(data, "VmData:"));
    space.into_iter().chain(data).min()
}

#[cfg(not(target_os = "linux"))]
fn limited_bytes() -> Option<u64> {
    None
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The used share of the machine's memory, or of that of an enclosing control group, whichever is larger.
fn used_percent() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| machine_percent(&text));
    let own = std::fs::read_to_string("/proc/self/cgroup").ok();
    let group = own.and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let group = PathBuf::from("/sys/fs/cgroup").join(path);
        let around = group
            .ancestors()
            .take_while(|path| path.starts_with("/sys/fs/cgroup"));
        around.filter_map(cgroup_percent).max()
    });
    machine.max(group)
}

fn machine_percent(meminfo: &str) -> Option<u64> {
    let (total, free) = (
        kilobytes(meminfo, "MemTotal:")?,
        kilobytes(meminfo, "MemAvailable:")?,
    );
    percent(total.saturating_sub(free), total)
}

fn cgroup_percent(group: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let most = read("memory.max")?.trim().parse().ok()?;
    let held: u64 = read("memory.current")?.trim().parse().ok()?;
    // The kernel can reclaim memory that only caches files.
    let cached = read("memory.stat")
        .and_then(|stat| {
            let line = stat
                .lines()
                .find_map(|line| line.strip_prefix("inactive_file "))?;
            line.parse::<u64>().ok()
        })
        .unwrap_or(0);
    percent(held.saturating_sub(cached), most)
}

fn percent(part: u64, whole: u64) -> Option<u64> {
    part.saturating_mul(100).checked_div(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_memory_figures_are_parsed() {
        let meminfo = "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    250 kB\n";
        assert_eq!(machine_percent(meminfo), Some(75));
        assert_eq!(machine_percent("MemTotal: 1000 kB\n"), None);
        assert_eq!(percent(1, 0), None);
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(cgroup_percent(dir.path()), None);
        for (name, text) in [
            ("memory.max", "1000\n"),
            ("memory.current", "900\n"),
            ("memory.stat", "anon 5\ninactive_file 100\n"),
        ] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        assert_eq!(cgroup_percent(dir.path()), Some(80));
        std::fs::write(dir.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_percent(dir.path()), None);
    }

    #[test]
    fn low_watermark_is_exceeded_and_top_one_never() {
        assert!(Watermark::with_headroom(0, 0).is_exceeded(0));
        assert!(!Watermark::with_headroom(100, 0).is_exceeded(0));
    }
}
