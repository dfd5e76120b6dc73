//! [`Door`] and [`Channel`]: sockets over which two processes of one host pass messages and descriptors.

use core::mem::MaybeUninit;
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    io::Errno,
    net::{
        self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    },
};
use std::io::{self, IoSlice, IoSliceMut};

/// Largest message in bytes.
pub const MAX_MESSAGE: usize = 1024;

/// Most descriptors of a message; the kernel closes further ones.
pub const MAX_FDS: usize = 6;

/// Connections that wait to be accepted; a caller beyond them tries again.
const BACKLOG: i32 = 128;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn socket() -> Result<OwnedFd, Errno> {
    net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}

/// A listener with a name in the abstract space: every process of the network namespace can connect to it, no file
/// exists, and the name is free again when the process ends.
#[derive(Debug)]
pub struct Door(OwnedFd);

impl Door {
    /// Listens under a name, which should be random, so that it cannot be taken before.
    ///
    /// # Errors
    /// The name is taken or too long, or the system has no descriptors.
    pub fn open(name: &[u8]) -> io::Result<Self> {
        let fd = socket()?;
        net::bind(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
        net::listen(&fd, BACKLOG)?;
        Ok(Self(fd))
    }

    /// The next connection.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; others if the system has no descriptors.
    pub fn accept(&self) -> io::Result<Channel> {
        Ok(Channel(net::accept_with(&self.0, FLAGS)?))
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Door {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A connection of two processes. Messages keep their boundaries.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A received message.
#[derive(Debug)]
pub struct Received {
    /// Its length in the buffer; 0: the other side is gone.
    pub len: usize,
    /// Descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Channel {
    /// Connects to the door with this name. Never waits.
    ///
    /// # Errors
    /// No process listens there, or (`WouldBlock`) too many are waiting.
    pub fn connect(name: &[u8]) -> io::Result<Self> {
        let fd = socket()?;
        net::connect(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
        Ok(Self(fd))
    }

    /// The effective user of the process at the other end when it connected or began to listen.
    ///
    /// # Errors
    /// The system refuses to tell.
    fn peer_uid(&self) -> io::Result<u32> {
        // Not by `rustix`: a process of another namespace has the id 0, which its type excludes.
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        #[allow(clippy::cast_possible_truncation, reason = "twelve bytes")]
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into `found`, for which any bits are valid.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut len,
            )
        };
        if result == 0 { Ok(found.uid) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether that process belongs to the effective user of this one, or to one of `others`.
    ///
    /// # Errors
    /// The system refuses to tell.
    pub fn is_of_this_user_or(&self, others: &[u32]) -> io::Result<bool> {
        let uid = self.peer_uid()?;
        Ok(uid == rustix::process::geteuid().as_raw() || others.contains(&uid))
    }

    /// Sends a message of 1 to [`MAX_MESSAGE`] bytes, with descriptors.
    ///
    /// # Errors
    /// `WouldBlock` if the other side does not read; others if it is gone.
    pub fn send(&self, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if message.is_empty() || message.len() > MAX_MESSAGE || fds.len() > MAX_FDS {
            return Err(Errno::MSGSIZE.into());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::MSGSIZE.into());
        }
        net::sendmsg(&self.0, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Says that nothing more will be sent: the other side sees the end, and may still send.
    pub fn half_close(&self) {
        // It fails if the other side is gone, which then knows.
        let _ = net::shutdown(&self.0, net::Shutdown::Write);
    }

    /// Receives a message.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; `InvalidData` if it is longer than [`MAX_MESSAGE`] or has too many descriptors;
    /// others if the connection is broken.
    pub fn receive(&self, buf: &mut [u8; MAX_MESSAGE]) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(buf)];
        let found = net::recvmsg(&self.0, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        // With fewer than the most, this process has no room for them.
        if found.flags.contains(ReturnFlags::CTRUNC) && fds.len() < MAX_FDS {
            return Err(Errno::MFILE.into());
        }
        if found.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of the channel is too long"));
        }
        Ok(Received { len: found.bytes, fds })
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Place, Pool, View};

    fn pair(name: &str) -> (Channel, Channel) {
        let name = format!("zwire test {} {name}", std::process::id());
        let door = Door::open(name.as_bytes()).unwrap();
        assert_eq!(door.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let near = Channel::connect(name.as_bytes()).unwrap();
        (near, door.accept().unwrap())
    }

    #[test]
    fn a_segment_is_passed_and_its_chunk_is_read_without_a_copy() {
        let (near, far) = pair("segment");
        let pool = Pool::new(1 << 20);
        let mut chunk = pool.allocate(1000).unwrap();
        chunk.as_mut_slice().fill(7);
        let bytes = chunk.freeze();
        let place = Place::of(&bytes).unwrap();
        near.send(b"segment", &[place.memory.fd()]).unwrap();
        let mut buf = [0; MAX_MESSAGE];
        let Received { len, mut fds } = far.receive(&mut buf).unwrap();
        assert_eq!((&buf[..len], fds.len()), (&b"segment"[..], 1));
        let view = View::open(fds.remove(0), place.memory.size() as u64, Vec::new()).unwrap();
        assert_eq!(view.bytes(place.offset..place.offset + 1000).unwrap(), &bytes[..]);
        // Memory that is written now is seen there at once.
        drop(bytes);
        pool.allocate(1000).unwrap().as_mut_slice().fill(8);
        assert_eq!(view.bytes(place.offset..place.offset + 1).unwrap(), [8]);
    }

    #[test]
    fn both_sides_know_the_user_of_the_other() {
        let (near, far) = pair("user");
        let own = rustix::fs::fstat(std::fs::File::open("/proc/self").unwrap()).unwrap().st_uid;
        assert_eq!((near.peer_uid().unwrap(), far.peer_uid().unwrap()), (own, own));
        assert!(near.is_of_this_user_or(&[]).unwrap() && far.is_of_this_user_or(&[own + 1]).unwrap());
    }

    #[test]
    fn the_end_of_the_other_side_is_seen() {
        let (near, far) = pair("end");
        let mut buf = [0; MAX_MESSAGE];
        assert_eq!(near.receive(&mut buf).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        far.send(b"last", &[]).unwrap();
        drop(far);
        assert_eq!(near.receive(&mut buf).unwrap().len, 4);
        assert_eq!(near.receive(&mut buf).unwrap().len, 0);
        assert_eq!(near.send(b"x", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_channel_that_a_view_keeps_does_not_end_with_its_owner() {
        let (near, far) = pair("keep");
        let pool = Pool::new(1 << 20);
        let place = Place::of(pool.allocate(10).unwrap().as_slice()).unwrap();
        let kept = Channel::from(far.0.try_clone().unwrap());
        let fd = place.memory.fd().try_clone_to_owned().unwrap();
        let view = View::open(fd, place.memory.size() as u64, vec![std::sync::Arc::new(kept)]).unwrap();
        assert_eq!(view.memory().keepers().len(), 1);
        drop(far);
        let mut buf = [0; MAX_MESSAGE];
        assert_eq!(near.receive(&mut buf).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(view);
        assert_eq!(near.receive(&mut buf).unwrap().len, 0);
    }

    #[test]
    fn half_of_a_channel_ends() {
        let (near, far) = pair("half");
        let mut buf = [0; MAX_MESSAGE];
        near.half_close();
        assert_eq!(far.receive(&mut buf).unwrap().len, 0);
        far.send(b"still", &[]).unwrap();
        assert_eq!(near.receive(&mut buf).unwrap().len, 5);
        assert!(near.send(b"x", &[]).is_err());
    }

    #[test]
    fn messages_of_strangers_have_bounds() {
        let (near, far) = pair("bounds");
        let mut buf = [0; MAX_MESSAGE];
        assert!(near.send(&[], &[]).is_err() && near.send(&[0; MAX_MESSAGE + 1], &[]).is_err());
        // Past the bound, as another program would send it.
        rustix::net::send(near.as_fd(), &[1; MAX_MESSAGE + 1], SendFlags::empty()).unwrap();
        assert_eq!(far.receive(&mut buf).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let (mut end, other) = io::pipe().unwrap();
        let many = [other.as_fd(); 20];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        net::sendmsg(near.as_fd(), &[IoSlice::new(b"many")], &mut control, SendFlags::empty()).unwrap();
        assert_eq!(far.receive(&mut buf).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(other);
        assert_eq!(io::Read::read(&mut end, &mut [0]).unwrap(), 0, "none is left open");
        near.send(b"next", &[]).unwrap();
        assert_eq!(far.receive(&mut buf).unwrap().len, 4);
    }

    #[test]
    fn a_name_is_taken_once_and_free_afterwards() {
        let name = format!("zwire test {} name", std::process::id());
        let door = Door::open(name.as_bytes()).unwrap();
        assert_eq!(Door::open(name.as_bytes()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(door);
        assert_eq!(Channel::connect(name.as_bytes()).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        Door::open(name.as_bytes()).unwrap();
    }
}
