//! Jobs and the two threads that take them.

use super::*;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{ThreadId, current};

/// A source of jobs that records which threads read them.
struct Jobs {
    left: std::vec::IntoIter<Job>,
    /// The delay before each job.
    pause: Duration,
    readers: Sender<ThreadId>,
}

impl CallSource for Jobs {
    type End = ();

    fn next(&mut self) -> NextCall<()> {
        std::thread::sleep(self.pause);
        self.readers.send(current().id()).unwrap();
        self.left.next().map_or(NextCall::End(()), NextCall::Run)
    }
}

fn check(jobs: Vec<Job>, pause: Duration) -> Vec<ThreadId> {
    let (readers, read_by) = channel();
    let source = Jobs {
        left: jobs.into_iter(),
        pause,
        readers,
    };
    let (ended, end) = sync_channel(1);
    start(source, ThreadPool::new(2), ended).unwrap();
    end.recv().unwrap();
    read_by.iter().collect()
}

/// Pairs of jobs of which the first waits for the second.
fn pairs(count: usize, done: &Sender<&'static str>) -> Vec<Job> {
    let pair = |_| {
        let (release, released) = channel();
        let (first, second) = (done.clone(), done.clone());
        let waits = Job::new(move || {
            released.recv().unwrap();
            first.send("waited").unwrap();
        });
        let goes = Job::new(move || {
            second.send("went").unwrap();
            release.send(()).unwrap();
        });
        [waits, goes]
    };
    (0..count).flat_map(pair).collect()
}

#[test]
fn waiting_job_is_overtaken_by_a_later_one() {
    let (done, order) = channel();
    let readers = check(pairs(1, &done), Duration::ZERO);
    drop(done);
    assert_eq!(order.iter().collect::<Vec<_>>(), ["went", "waited"]);
    assert_ne!(readers[0], readers[1]);
}

#[test]
fn reader_and_standby_switch_roles_despite_panics() {
    let (done, order) = channel();
    let mut jobs = pairs(20, &done);
    drop(done);
    jobs.insert(0, Job::new(|| panic!("expected by this test")));
    jobs.insert(20, Job::new(|| panic!("expected by this test")));
    assert_eq!(check(jobs, Duration::ZERO).len(), 43);
    assert_eq!(order.iter().count(), 40);
}

#[test]
fn sleeping_standby_wakes_up() {
    let (done, order) = channel();
    let (ran, ran_by) = channel();
    let mut jobs = pairs(1, &done);
    drop(done);
    jobs.insert(0, Job::new(move || ran.send(current().id()).unwrap()));
    let readers = check(jobs, TICK * QUIET_TICKS_MAX * 3);
    assert_eq!(ran_by.recv().unwrap(), readers[0]);
    assert_eq!(order.iter().count(), 2);
}
