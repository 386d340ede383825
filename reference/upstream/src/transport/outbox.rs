//! A bounded queue of frames to a child: a peer that does not read can't make it grow. Knows nothing of the frames' contents.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::limits::{ANSWER_BYTES_QUEUED_MAX, FRAME_BYTES_CHARGED_MIN, REQUEST_BYTES_QUEUED_MAX};

/// Frames to be written to a child. Requests of ours wait for room; answers that the peer caused are refused when there is
/// none.
pub(super) struct Outbox {
    /// `None` once the child's input is closed.
    queue: Mutex<Option<mpsc::UnboundedSender<Queued>>>,
    requests: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

/// A queued frame; its room is held until it is written.
pub(super) struct Queued {
    pub frame: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// The peer causes more answers than it reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overflow;

impl Outbox {
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Queued>) {
        let (queue, frames) = mpsc::unbounded_channel();
        let outbox = Self {
            queue: Mutex::new(Some(queue)),
            requests: Arc::new(Semaphore::new(REQUEST_BYTES_QUEUED_MAX)),
            answers: Arc::new(Semaphore::new(ANSWER_BYTES_QUEUED_MAX)),
        };
        (outbox, frames)
    }

    /// Queues a request of ours once there is room; one that is larger than the whole queue waits until the queue is empty.
    /// Returns when the request is queued, or when the child's input is closed.
    pub async fn request(&self, frame: Vec<u8>) {
        let room =
            Arc::clone(&self.requests).acquire_many_owned(charge(&frame, REQUEST_BYTES_QUEUED_MAX));
        if let Ok(room) = room.await {
            self.queue(frame, room);
        }
    }

    /// Queues a frame that the peer's behaviour caused: an answer, a cancellation.
    ///
    /// # Errors
    /// The queue of such frames is so full that the peer can't be reading.
    pub fn answer(&self, frame: Vec<u8>) -> Result<(), Overflow> {
        if frame.len() > ANSWER_BYTES_QUEUED_MAX {
            return Err(Overflow);
        }
        let charge = charge(&frame, ANSWER_BYTES_QUEUED_MAX);
        match Arc::clone(&self.answers).try_acquire_many_owned(charge) {
            Ok(room) => {
                self.queue(frame, room);
                Ok(())
            }
            // The child's input is closed; the frame is dropped.
            Err(tokio::sync::TryAcquireError::Closed) => Ok(()),
            Err(tokio::sync::TryAcquireError::NoPermits) => Err(Overflow),
        }
    }

    /// Closes the child's input after the queued frames; waiting requests return.
    pub fn close(&self) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.requests.close();
        self.answers.close();
    }

    fn queue(&self, mut frame: Vec<u8>, room: OwnedSemaphorePermit) {
        frame.push(b'\n');
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queue.as_ref() {
            // A closed channel means that the child is ending; the reader notifies all waiters.
            let _ = queue.send(Queued { frame, _room: room });
        }
    }
}

/// The room that a frame takes: its bytes, but at least its overhead, so that the byte limit also bounds the number of frames.
fn charge(frame: &[u8], all: usize) -> u32 {
    let bytes = frame.len().clamp(FRAME_BYTES_CHARGED_MIN, all);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn full_outbox_refuses_answers_and_delays_requests() {
        let (outbox, mut frames) = Outbox::new();
        let answers = ANSWER_BYTES_QUEUED_MAX / FRAME_BYTES_CHARGED_MIN;
        for _ in 0..answers {
            assert_eq!(outbox.answer(b"{}".to_vec()), Ok(()));
        }
        assert_eq!(outbox.answer(b"{}".to_vec()), Err(Overflow));
        assert_eq!(
            outbox.answer(vec![b' '; ANSWER_BYTES_QUEUED_MAX + 1]),
            Err(Overflow)
        );
        // Answers that the peer caused don't take the room of requests, and a request may have any size.
        outbox
            .request(vec![b'x'; 2 * REQUEST_BYTES_QUEUED_MAX])
            .await;
        let mut next = Box::pin(outbox.request(b"next".to_vec()));
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), &mut next);
        assert!(
            waits.await.is_err(),
            "there is no room before the first is written"
        );
        for _ in 0..answers {
            assert_eq!(
                frames.recv().await.map(|queued| queued.frame),
                Some(b"{}\n".to_vec())
            );
        }
        assert_eq!(
            outbox.answer(b"{}".to_vec()),
            Ok(()),
            "what was written makes room"
        );
        drop(frames.recv().await);
        next.await;
    }

    #[tokio::test]
    async fn closed_input_unblocks_waiting_requests() {
        let (outbox, _frames) = Outbox::new();
        outbox.request(vec![b'x'; REQUEST_BYTES_QUEUED_MAX]).await;
        let waiting = outbox.request(b"next".to_vec());
        tokio::join!(waiting, async { outbox.close() });
        assert_eq!(outbox.answer(b"{}".to_vec()), Ok(()));
    }
}
