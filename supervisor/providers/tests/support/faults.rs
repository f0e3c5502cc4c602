//! A provider on loopback that misbehaves to order: one act for each connection, the last one again
//! and again. It counts what it was asked and keeps what it was sent.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As it should.
    Whole,
    /// The connection is dropped in the middle.
    Drop,
    /// Silence, until the client leaves.
    Stall,
}

/// What happens on one connection.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// An answer.
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
        /// Bytes of a piece; each is one chunk and one write.
        piece: usize,
        /// Pause before each piece.
        gap: Duration,
        end: End,
    },
    /// The request is read and never answered.
    Silence,
    /// The request is read and the connection closed.
    HangUp,
}

impl Act {
    /// A stream under status 200, whole, in pieces of 4096 bytes.
    pub(crate) fn stream(body: impl Into<Vec<u8>>) -> Self {
        Self::answer(
            200,
            &[("content-type", "text/event-stream; charset=utf-8")],
            body,
        )
    }

    /// Any answer.
    pub(crate) fn answer(
        status: u16,
        headers: &[(&'static str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Self {
        let headers = headers
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        Self::Answer {
            status,
            headers,
            body: body.into(),
            piece: 4_096,
            gap: Duration::ZERO,
            end: End::Whole,
        }
    }

    /// The same answer in pieces of another size.
    pub(crate) fn pieces(mut self, size: usize) -> Self {
        if let Self::Answer { piece, .. } = &mut self {
            *piece = size;
        }
        self
    }

    /// The same answer with a pause before each piece.
    pub(crate) fn slowly(mut self, pause: Duration) -> Self {
        if let Self::Answer { gap, .. } = &mut self {
            *gap = pause;
        }
        self
    }

    /// The same answer with another end.
    pub(crate) fn ends(mut self, how: End) -> Self {
        if let Self::Answer { end, .. } = &mut self {
            *end = how;
        }
        self
    }
}

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
    pub(crate) at: Instant,
}

/// The provider.
#[derive(Debug)]
pub(crate) struct Faults {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    left: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Faults {
    /// Starts it on a free port.
    pub(crate) async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let left = Arc::new(AtomicUsize::new(0));
        let (log, gone) = (Arc::clone(&seen), Arc::clone(&left));
        let task = tokio::spawn(async move {
            let mut turn = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let act = acts[turn.min(acts.len() - 1)].clone();
                turn += 1;
                let (log, gone) = (Arc::clone(&log), Arc::clone(&gone));
                tokio::spawn(async move {
                    // A client that leaves early is part of the play.
                    let _ = serve(stream, act, &log).await;
                    gone.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            address,
            seen,
            left,
            task,
        }
    }

    /// Its address as a base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("whole").clone()
    }

    /// Connections that are over.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, act: Act, log: &Mutex<Vec<Seen>>) -> std::io::Result<()> {
    let Some(request) = request(&mut stream).await? else {
        return Ok(());
    };
    log.lock().expect("whole").push(request);
    match act {
        Act::HangUp => Ok(()),
        Act::Silence => wait_for_leave(&mut stream).await,
        Act::Answer {
            status,
            headers,
            body,
            piece,
            gap,
            end,
        } => {
            let mut head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("transfer-encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            for part in body.chunks(piece) {
                if !gap.is_zero() {
                    tokio::time::sleep(gap).await;
                }
                let mut chunk = format!("{:x}\r\n", part.len()).into_bytes();
                chunk.extend_from_slice(part);
                chunk.extend_from_slice(b"\r\n");
                stream.write_all(&chunk).await?;
            }
            match end {
                End::Whole => stream.write_all(b"0\r\n\r\n").await?,
                End::Drop => {}
                End::Stall => wait_for_leave(&mut stream).await?,
            }
            stream.shutdown().await
        }
    }
}

async fn wait_for_leave(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

async fn request(stream: &mut TcpStream) -> std::io::Result<Option<Seen>> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0_usize) {
                let (head, body) = (head.to_owned(), body.to_owned());
                return Ok(Some(Seen {
                    head,
                    body,
                    at: Instant::now(),
                }));
            }
        }
        let mut more = [0; 8_192];
        match stream.read(&mut more).await? {
            0 => return Ok(None),
            n => bytes.extend_from_slice(&more[..n]),
        }
    }
}
