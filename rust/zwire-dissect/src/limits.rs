//! Every bound of the dissector, with its reason.

/// Largest message that is put together from fragments. The peers take up to 1 GiB; a capture is
/// read by many processes at once, and nobody has been seen to send more than some ten MiB.
pub const MAX_MESSAGE: usize = 256 << 20;
/// Most memory for messages in fragments, of all connections together: two of the largest.
pub const MAX_REASSEMBLY: usize = 2 * MAX_MESSAGE;
/// Most memory for what one side of a session declares. Sessions of a hundred thousand keys exist;
/// above it declarations are not remembered and keys stay unresolved.
pub const MAX_DECLARED_BYTES: usize = 16 << 20;
/// Most memory for what all sessions declare.
pub const MAX_DECLARED_TOTAL: usize = 16 * MAX_DECLARED_BYTES;
/// What a declaration costs beside its string.
pub(super) const ENTRY_BYTES: usize = 64;
/// Largest batch: a length prefix has 16 bits, and a datagram has no more.
pub(super) const MAX_BATCH: usize = u16::MAX as usize;
/// Most bytes of a stream that wait for the decision where its batches begin: enough for the run of
/// largest batches that decides it.
pub const MAX_UNDECIDED: usize = 8 * (MAX_BATCH + 3);
/// Most bytes that wait for this decision in all streams. Above it a stream that would wait is given
/// up, or searched from its next bytes on if it is known to be Zenoh.
pub const MAX_UNDECIDED_TOTAL: usize = 128 * MAX_UNDECIDED;
/// How many bytes of batches are tried per byte that waits, before the search gives up. Honest
/// streams need less than two; hostile ones nest what looks like batches.
pub(super) const MAX_TRIES: usize = 32;
/// How many bytes are tried at least: a few blocks of LZ4, each of which may become a largest batch.
pub(super) const MIN_TRIES: usize = 64 * MAX_BATCH;
/// What a block of LZ4 counts that does not decompress: random ones break within some ten bytes.
pub(super) const BROKEN_BLOCK: usize = 2048;
/// How many messages of a WebSocket that was joined late wait for the decision.
pub(super) const MAX_HELD_MESSAGES: usize = 16;
/// How many datagrams that look like Zenoh wait for the decision, of all addresses together.
pub(super) const MAX_HELD_DATAGRAMS: usize = 1024;
/// How many sessions over UDP are followed at once; above it the one that began first is forgotten.
pub const MAX_DATAGRAM_SESSIONS: usize = 4096;
/// How many addresses are remembered that have sent SCOUT, to recognise the HELLOs they get.
pub(super) const MAX_SCOUTS: usize = 1024;
/// What a frame of a ZMTP message costs beside its bytes.
pub(super) const FRAME_BYTES: usize = 32;
/// Most frames of a ZMTP message. Applications have some ten; what they cost is two MiB.
pub const MAX_FRAMES: usize = 1 << 16;
/// Bytes that tell whether a connection begins with a greeting of ZMTP.
pub(super) const MAX_GREETING: usize = 64;
