//! Messages of one byte and some descriptors, over a pair of sockets. Nothing here allocates.

#![allow(unsafe_code)]

use crate::file::{Fd, again};
use crate::{calls, errno::Errno, mapping::FromZeros};
use libc::{CMSG_DATA, CMSG_FIRSTHDR, CMSG_LEN, CMSG_SPACE};
use std::{ffi::c_int, os::fd::AsRawFd};

/// Descriptors of a message at most.
pub const MOST: usize = 4;

/// A byte, and the descriptors that came with it.
pub type Received = (u8, [Option<Fd>; MOST]);

/// Words of a message's control part for so many descriptors, and more.
const CONTROL: usize = 8;

/// Calls `act` with a message of one byte and room for descriptors.
fn with_message<T>(byte: &mut u8, act: impl FnOnce(&mut libc::msghdr) -> T) -> T {
    let mut part = libc::iovec {
        iov_base: (&raw mut *byte).cast(),
        iov_len: 1,
    };
    let mut control = [0u64; CONTROL];
    let mut message = libc::msghdr::zeroed();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    act(&mut message)
}

/// Sends a byte and descriptors, at most [`MOST`].
pub fn send(socket: &impl AsRawFd, mut byte: u8, descriptors: &[c_int]) -> Result<(), Errno> {
    let descriptors = &descriptors[..descriptors.len().min(MOST)];
    let bytes = size_of_val(descriptors) as u32;
    // SAFETY: the control part has room for a header and all descriptors.
    let sent = with_message(&mut byte, |message| unsafe {
        message.msg_controllen = CMSG_SPACE(bytes) as _;
        let header = CMSG_FIRSTHDR(message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = CMSG_LEN(bytes) as _;
        let room = CMSG_DATA(header).cast::<c_int>();
        room.copy_from_nonoverlapping(descriptors.as_ptr(), descriptors.len());
        again(|| libc::sendmsg(socket.as_raw_fd(), message, libc::MSG_NOSIGNAL))
    });
    sent.map(drop)
}

/// Receives a byte and descriptors; `None` if nobody has the other end any more.
pub fn receive(socket: &impl AsRawFd) -> Result<Option<Received>, Errno> {
    let mut byte = 0;
    let mut descriptors = [const { None }; MOST];
    // SAFETY: the header counts the descriptors that were received, which are nobody else's.
    let length = with_message(&mut byte, |message| unsafe {
        let flags = libc::MSG_CMSG_CLOEXEC;
        let length = again(|| libc::recvmsg(socket.as_raw_fd(), message, flags))?;
        let header = CMSG_FIRSTHDR(message);
        if !header.is_null() {
            // Of 32 bits in musl.
            let bytes: usize = (*header).cmsg_len.saturating_sub(CMSG_LEN(0) as _) as _;
            let received = CMSG_DATA(header).cast::<c_int>();
            for (index, place) in (0..bytes / size_of::<c_int>()).zip(&mut descriptors) {
                *place = Some(Fd::owned(received.add(index).read()));
            }
        }
        Ok(length)
    })?;
    Ok((length > 0).then_some((byte, descriptors)))
}

/// Makes a pair of connected Unix sockets that keep messages apart.
pub fn pair() -> Result<(Fd, Fd), Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    crate::file::ends(|ends| calls::socketpair(libc::AF_UNIX, kind, 0, ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::identity;

    #[test]
    fn a_message_brings_a_byte_and_descriptors_and_the_end_is_noticed() {
        let (one, other) = pair().unwrap();
        let sent = [one.as_raw_fd(), other.as_raw_fd()];
        send(&one, 7, &sent).unwrap();
        let (byte, received) = receive(&other).unwrap().unwrap();
        assert_eq!(byte, 7);
        assert_eq!(received.iter().flatten().count(), 2);
        let first = received[0].as_ref().unwrap();
        assert_ne!(first.as_raw_fd(), sent[0]);
        assert_eq!(identity(first), identity(&one));
        drop((one, received));
        assert!(receive(&other).unwrap().is_none());
    }
}
