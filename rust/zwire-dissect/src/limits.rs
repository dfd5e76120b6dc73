//! Every bound of the dissector, with its reason.

/// Largest message that is reassembled from fragments. The peers take up to 1 GiB; a capture is read by
/// many processes at once, and no sender has been seen to exceed some ten MiB.
pub const MAX_MESSAGE: usize = 256 << 20;
/// Most memory for messages in fragments, of all connections together: two of the largest.
pub const MAX_REASSEMBLY: usize = 2 * MAX_MESSAGE;
/// Most memory for the declarations of one side of a session. Sessions of a hundred thousand keys
/// exist; above the bound declarations are not remembered and keys stay unresolved.
pub const MAX_DECLARED_BYTES: usize = 16 << 20;
/// Most memory for the declarations of all sessions.
pub const MAX_DECLARED_TOTAL: usize = 16 * MAX_DECLARED_BYTES;
/// Memory of a declaration beside its string.
pub(super) const ENTRY_BYTES: usize = 64;
/// Largest batch: a length prefix has 16 bits, and a datagram is no longer.
pub(super) const MAX_BATCH: usize = u16::MAX as usize;
/// Most bytes of a stream that wait for the decision where its batches begin: the run that decides it.
pub const MAX_UNDECIDED: usize = 8 * (MAX_BATCH + 3);
/// Most bytes that wait for this decision in all streams. Above it a stream that would wait is given
/// up, or searched from its next bytes on if it is known to be Zenoh.
pub const MAX_UNDECIDED_TOTAL: usize = 128 * MAX_UNDECIDED;
/// Bytes of batches tried per waiting byte: ordinary streams need less than two, hostile ones nest more.
pub(super) const MAX_TRIES: usize = 32;
/// Fewest bytes that are tried: a few blocks of LZ4, each of which may become a largest batch.
pub(super) const MIN_TRIES: usize = 64 * MAX_BATCH;
/// Cost charged for an LZ4 block that does not decompress: random ones break within some ten bytes.
pub(super) const BROKEN_BLOCK: usize = 2048;
/// Messages of a WebSocket joined late that may wait for the decision.
pub(super) const MAX_HELD_MESSAGES: usize = 16;
/// Datagrams that look like Zenoh and may wait for the decision, of all addresses together.
pub(super) const MAX_HELD_DATAGRAMS: usize = 1024;
/// Sessions over UDP followed at once; above it the oldest is dropped.
pub const MAX_DATAGRAM_SESSIONS: usize = 4096;
/// Senders of SCOUT that are remembered, to recognise the HELLOs they get.
pub(super) const MAX_SCOUTS: usize = 1024;
/// Memory of a frame of a ZMTP message beside its bytes.
pub(super) const FRAME_BYTES: usize = 32;
/// Most frames of a ZMTP message. Applications use some ten; this many take two MiB.
pub const MAX_FRAMES: usize = 1 << 16;
/// Bytes that suffice to tell whether a connection begins with a ZMTP greeting.
pub(super) const MAX_GREETING: usize = 64;
