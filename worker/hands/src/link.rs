//! Hands' end of the link: orders and their descriptors come down, reports go up, nothing waits.

use std::{
    collections::VecDeque,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use protocol::{
    Order, Report, bounds,
    frame::{self, Decoder, FrameFault},
};
use rustix::{
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags},
};

/// Bytes of one order's frame: a whole file, escaped at worst twofold.
const ORDER_FRAME: usize = bounds::FRAME * 2;
/// Descriptors that one order brings at most.
const FDS: usize = 4;
/// Descriptors of orders that were received and not yet read.
const FDS_HELD: usize = 64;

/// Why the link is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum LinkFault {
    /// The supervisor is gone.
    #[error("the supervisor has closed its link")]
    Closed,
    /// A frame is none of the treaty.
    #[error("the supervisor broke the treaty: {0}")]
    Frame(#[from] FrameFault),
    /// Descriptors and orders do not belong together.
    #[error("an order came without its descriptors, or descriptors without their order")]
    Descriptors,
    /// The kernel's answer.
    #[error("the supervisor's link failed: {0}")]
    Broken(Errno),
}

/// The link.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    decoder: Decoder,
    descriptors: VecDeque<OwnedFd>,
    outgoing: VecDeque<u8>,
}

impl Link {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            decoder: Decoder::new(ORDER_FRAME),
            descriptors: VecDeque::new(),
            outgoing: VecDeque::new(),
        }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether reports wait to be read by the supervisor.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether so many wait that no further order is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.outgoing.len() > bounds::REPORTS_HELD
    }

    /// Receives what is there.
    pub(crate) fn receive(&mut self) -> Result<(), LinkFault> {
        let mut bytes = [0_u8; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = match rustix::net::recvmsg(&self.socket, &mut parts, &mut control, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(Errno::CONNRESET) => return Err(LinkFault::Closed),
            Err(errno) => return Err(LinkFault::Broken(errno)),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                self.descriptors.extend(received);
            }
        }
        if got.flags.contains(ReturnFlags::CTRUNC) || self.descriptors.len() > FDS_HELD {
            return Err(LinkFault::Descriptors);
        }
        if got.bytes == 0 {
            return Err(LinkFault::Closed);
        }
        self.decoder
            .push(bytes.get(..got.bytes).unwrap_or_default());
        Ok(())
    }

    /// The next whole order. Descriptors come with an order's first byte and in the orders' order,
    /// so that each order takes its own from the front.
    pub(crate) fn next_order(&mut self) -> Result<Option<(Order, Vec<OwnedFd>)>, LinkFault> {
        let Some(order) = self.decoder.next_message::<Order>()? else {
            if !self.decoder.is_midway() && !self.descriptors.is_empty() {
                return Err(LinkFault::Descriptors);
            }
            return Ok(None);
        };
        let count = descriptors_of(&order);
        if self.descriptors.len() < count {
            return Err(LinkFault::Descriptors);
        }
        let own = self.descriptors.drain(..count).collect();
        Ok(Some((order, own)))
    }

    /// Queues a report and sends what the link takes.
    pub(crate) fn report(&mut self, report: &Report) -> Result<(), LinkFault> {
        self.outgoing.extend(frame::encode(report, bounds::FRAME)?);
        self.flush()
    }

    /// Sends what the link takes.
    pub(crate) fn flush(&mut self) -> Result<(), LinkFault> {
        loop {
            let (front, _) = self.outgoing.as_slices();
            if front.is_empty() {
                return Ok(());
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.socket, front, flags) {
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(LinkFault::Closed),
                Err(errno) => return Err(LinkFault::Broken(errno)),
            }
        }
    }
}

/// How many descriptors an order brings.
fn descriptors_of(order: &Order) -> usize {
    match order {
        Order::Spawn(spawn) => {
            let further = [spawn.stdin, spawn.errors, spawn.program];
            1 + further.into_iter().map(usize::from).sum::<usize>()
        }
        Order::Probe { .. } | Order::Put(_) | Order::Read { .. } => 1,
        Order::StartAgent | Order::Kill { .. } | Order::Resolve { .. } | Order::End => 0,
    }
}
