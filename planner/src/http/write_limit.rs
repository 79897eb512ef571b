//! Time limit of an answer to a slow reader. It begins when the connection cannot take more, and ends when all
//! that was written has been taken: a reader that takes a little at a time gains nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Maximum time for which an answer waits for its reader.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A connection whose writes have a time limit.
pub(super) struct WriteLimit<S> {
    stream: S,
    limit: Duration,
    blocked: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteLimit<S> {
    pub(super) fn new(stream: S, limit: Duration) -> WriteLimit<S> {
        WriteLimit {
            stream,
            limit,
            blocked: None,
        }
    }

    /// Fails if the write has been blocked for too long.
    fn check<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_pending() {
            let limit = self.limit;
            let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(limit)));
            ready!(blocked.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.check(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Called once all has been written.
        let result = Pin::new(&mut self.stream).poll_flush(context);
        if result.is_ready() {
            self.blocked = None;
        }
        self.check(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check(context, result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn reader_that_takes_a_little_at_a_time_is_cut_off() {
        let (mut reader, writer) = tokio::io::duplex(10);
        let mut writer = WriteLimit::new(writer, LIMIT);
        let begin = Instant::now();
        let reads = tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(3)).await;
                if reader.read_u8().await.is_err() {
                    return;
                }
            }
        });
        let error = writer.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed(), LIMIT);
        drop(writer);
        reads.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn limit_begins_anew_with_each_answer() {
        let (mut reader, writer) = tokio::io::duplex(10);
        let mut writer = WriteLimit::new(writer, LIMIT);
        let reads = tokio::spawn(async move {
            let mut answer = [0; 20];
            for _ in 0..3 {
                sleep(Duration::from_secs(9)).await;
                reader.read_exact(&mut answer).await.unwrap();
            }
        });
        for _ in 0..3 {
            writer.write_all(&[0; 20]).await.unwrap();
            writer.flush().await.unwrap();
        }
        reads.await.unwrap();
    }
}
