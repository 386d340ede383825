//! Takes away from a process what evaluating does not need: files, sockets, programs, further memory and time. Code that runs in the
//! process cannot undo any of it. Knows nothing of programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Memory that a process may map beyond what programs may hold: its text, stacks, the allocator's own.
const BASE_BYTES: u64 = 192 << 20;
/// Address space beyond that: the stacks and arenas of threads reserve more than they use.
const SPACE_BYTES: u64 = 4 << 30;

/// Why a process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineFault {
    #[error("{resource:?}: {error}")]
    Limit { resource: Resource, error: Errno },
    #[error("/proc/self/fd: {0}")]
    Files(std::io::Error),
    #[error("seccomp: {0}")]
    Install(#[from] seccompiler::Error),
    #[error("seccomp: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// Sets the kernel's resource limits: memory for programs of `memory_bytes`, `cpu_seconds` of CPU time for the whole life of the process,
/// no files, no core dumps.
///
/// # Errors
/// The kernel's error.
pub fn set_limits(memory_bytes: u64, cpu_seconds: u64) -> Result<(), ConfineFault> {
    let data = memory_bytes.saturating_mul(3).saturating_add(BASE_BYTES);
    let limits = [
        (Resource::RLIMIT_DATA, data),
        (Resource::RLIMIT_AS, data.saturating_add(SPACE_BYTES)),
        (Resource::RLIMIT_CPU, cpu_seconds),
        (Resource::RLIMIT_FSIZE, 0),
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_NOFILE, 1),
    ];
    for (resource, most) in limits {
        // Limits of the server itself also apply to the processes that it starts.
        let refused = |error| ConfineFault::Limit { resource, error };
        let (_, hard) = getrlimit(resource).map_err(refused)?;
        let most = most.min(hard);
        setrlimit(resource, most, most).map_err(refused)?;
    }
    Ok(())
}

/// Closes every file descriptor except 0, which is the socket.
///
/// # Errors
/// The kernel's error.
pub fn close_files() -> Result<(), ConfineFault> {
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .map_err(ConfineFault::Files)?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 0)
        .collect();
    for number in open {
        // One of them is the directory that was just read, which is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Denies the file system, the network and signals to other processes, for the calling thread and the threads that it starts. Returns
/// false where the kernel cannot enforce all of it; it enforces what it can.
pub fn landlock() -> bool {
    let abi = ABI::V6;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(abi)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(abi)))
        .and_then(|ruleset| ruleset.create())
        .and_then(|ruleset| ruleset.restrict_self());
    ruleset.is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced)
}

/// Denies this process, and all processes that it starts, writing outside of `writable` and executing any program but its own. For a
/// server that starts only worker processes: upstream servers are programs of their own, and write where they must. Returns false where
/// the kernel cannot enforce it.
pub fn deny_file_writes(writable: &[&Path]) -> bool {
    let abi = ABI::V6;
    let write = AccessFs::from_write(abi);
    let own = std::iter::once("/proc/self/exe".into()).chain(loader());
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write | AccessFs::Execute)
        .and_then(|ruleset| ruleset.create())
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(own, AccessFs::Execute)))
        // Where unwanted output is sent.
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(["/dev/null"], write)))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(writable, write)))
        .and_then(|ruleset| ruleset.restrict_self());
    ruleset.is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

/// The dynamic loader of this program, if there is one: the kernel executes it, too.
fn loader() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let loads = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("ld-") && name.contains(".so")
    };
    paths.find(loads).map(PathBuf::from)
}

/// System calls that neither a server nor its worker processes need: access to other processes, administration of the machine, and ways
/// around the rest of the confinement.
const ADMIN_CALLS: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Namespaces and file systems.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_personality,
    // The machine's name and time.
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
];

/// Denies [`ADMIN_CALLS`] to this process and all processes that it starts. Not for a server with upstream servers: those are programs of their
/// own, which may start containers. Returns false where the kernel has no seccomp filters.
pub fn deny_admin_calls() -> bool {
    admin_filter().is_ok_and(|never| seccompiler::apply_filter_all_threads(&never).is_ok())
}

fn admin_filter() -> Result<BpfProgram, ConfineFault> {
    filter(
        ADMIN_CALLS.iter().map(|call| (*call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
    )
}

/// System calls of the evaluating threads. Everything else fails with `EPERM`.
const ALLOWED_CALLS: &[i64] = &[
    // The socket.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_close,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Threads.
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals that end the process.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Time and randomness.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
];

/// Installs the system call filter for every thread of the process, because they share their memory.
///
/// # Errors
/// The kernel's error; without seccomp there is no isolation.
pub fn seccomp() -> Result<(), ConfineFault> {
    // The arguments of `clone3` are in memory, where a filter cannot inspect them. With `ENOSYS` the C library falls back to `clone`.
    let unknown = filter(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
    )?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED_CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    // Threads only, never processes.
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(
        libc::SYS_clone,
        vec![rule(0, SeccompCmpOp::MaskedEq(thread), thread)?],
    );
    // No executable memory.
    let run = libc::PROT_EXEC as u64;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![rule(2, SeccompCmpOp::MaskedEq(run), 0)?]);
    }
    // Signals to its own threads, such as the one that aborts.
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![rule(0, SeccompCmpOp::Eq, own)?]);
    // Names of threads and of memory.
    rules.insert(
        libc::SYS_prctl,
        vec![
            rule(0, SeccompCmpOp::Eq, libc::PR_SET_NAME as u64)?,
            rule(0, SeccompCmpOp::Eq, libc::PR_SET_VMA as u64)?,
        ],
    );
    let allowed = filter(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
    )?;
    // Of two filters that refuse a call, the one installed last decides the error.
    seccompiler::apply_filter_all_threads(&unknown)?;
    Ok(seccompiler::apply_filter_all_threads(&allowed)?)
}

fn rule(argument: u8, compare: SeccompCmpOp, value: u64) -> Result<SeccompRule, ConfineFault> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}

fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matching: SeccompAction,
) -> Result<BpfProgram, ConfineFault> {
    let architecture = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, matching, architecture)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confined_server_runs_only_its_own_executable() {
        let runs = |program: &Path| {
            let run = std::process::Command::new(program).arg("--list").output();
            run.map_err(|error| error.raw_os_error())
        };
        let other = std::fs::canonicalize("/bin/sh").expect("a shell");
        let other = other.as_path();
        assert!(runs(other).is_ok(), "free, it may");
        std::thread::scope(|scope| {
            let held = scope.spawn(|| {
                if !deny_file_writes(&[]) {
                    return;
                }
                assert_eq!(runs(other).err(), Some(Some(libc::EACCES)));
                let own = runs(Path::new("/proc/self/exe"));
                assert!(own.is_ok_and(|output| output.status.success()));
                let written = std::fs::write(std::env::temp_dir().join("ptc-held"), "x");
                assert!(written.is_err());
            });
            held.join().expect("what must hold holds");
        });
    }

    #[test]
    fn admin_system_calls_are_denied() {
        let root = nix::unistd::geteuid().is_root();
        if root {
            std::os::unix::fs::chroot("/").expect("root may, without the filter");
        }
        // A filter applies to the thread that installs it and to what that thread starts.
        let refused = std::thread::spawn(|| {
            let never = admin_filter().expect("a filter");
            seccompiler::apply_filter(&never).expect("the kernel takes it");
            assert!(
                std::fs::read("/proc/self/status").is_ok(),
                "the rest goes on"
            );
            let own = std::env::current_exe().expect("a test");
            let starts = std::process::Command::new(own).arg("--list").output();
            assert!(starts.is_ok_and(|output| output.status.success()));
            std::os::unix::fs::chroot("/").map_err(|error| error.raw_os_error())
        });
        assert_eq!(refused.join().expect("it ends"), Err(Some(libc::EPERM)));
    }
}
