//! Output written by a thread of its own, so that what comes next is made while the reader of a pipe takes what came before.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Pieces that may wait for the thread.
const WAITING_MAX: usize = 4;

/// A writer in front of another one that is slower. `flush` waits until everything is written, and ends the thread.
pub(crate) struct Behind {
    pieces: Option<SyncSender<Vec<u8>>>,
    emptied: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Behind {
    /// Starts the thread that writes to `output`.
    ///
    /// # Errors
    /// What the system says of a new thread.
    pub(crate) fn new(mut output: impl Write + Send + 'static) -> io::Result<Behind> {
        let (pieces, inbox) = sync_channel::<Vec<u8>>(WAITING_MAX);
        let (empty, emptied): (Sender<Vec<u8>>, _) = channel();
        let thread = std::thread::Builder::new().name("logtool-output".into()).spawn(move || {
            for mut piece in inbox {
                output.write_all(&piece)?;
                piece.clear();
                // Nobody takes it back once all is written.
                let _ = empty.send(piece);
            }
            output.flush()
        })?;
        Ok(Behind { pieces: Some(pieces), emptied, thread: Some(thread) })
    }

    /// Waits for the thread. Its error is given once.
    fn end(&mut self) -> io::Result<()> {
        self.pieces = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the thread that writes the output has failed")),
            None => Ok(()),
        }
    }
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut piece = self.emptied.try_recv().unwrap_or_default();
        piece.extend_from_slice(bytes);
        let sent = self.pieces.as_ref().is_some_and(|pieces| pieces.send(piece).is_ok());
        if !sent {
            self.end()?;
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end()
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        // Reached with pieces left only where an error is on its way already.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Takes `room` bytes, then fails.
    struct Small {
        taken: Arc<Mutex<Vec<u8>>>,
        room: usize,
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut taken = self.taken.lock().unwrap();
            if taken.len() + bytes.len() > self.room {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_comes_out_in_order_once_it_is_flushed() {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let mut behind = Behind::new(Small { taken: Arc::clone(&taken), room: usize::MAX }).unwrap();
        let expected: Vec<u8> = (0..100u8).flat_map(|number| vec![number; 1000]).collect();
        expected.chunks(1000).for_each(|piece| behind.write_all(piece).unwrap());
        behind.flush().unwrap();
        assert_eq!(*taken.lock().unwrap(), expected);
    }

    #[test]
    fn an_error_of_the_output_is_told() {
        let mut behind = Behind::new(Small { taken: Arc::default(), room: 2500 }).unwrap();
        let written = (0..100).try_for_each(|_| behind.write_all(&[0; 1000]));
        let result = written.and_then(|()| behind.flush());
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
