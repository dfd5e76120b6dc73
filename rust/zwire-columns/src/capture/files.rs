//! Captures in files or in memory, one after the other.

use super::{
    input::Input,
    records::{Batches, End, Limits},
};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use bytes::Bytes;
use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};
use zwire_dissect::{Dissector, Options, Record};
use zwire_proto::DecodeError;

/// Approximate size of a piece of text: one write to a file or a pipe.
const TEXT_AT_ONCE: usize = 1 << 20;

/// Source of a capture.
#[derive(Debug)]
pub enum Source {
    /// File, pipe or terminal; its name appears in errors.
    File(PathBuf),
    /// File in memory.
    Memory(Bytes),
}

impl Source {
    /// Size in bytes, if it is known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::File(path) => {
                path.metadata().ok().filter(std::fs::Metadata::is_file).map(|file| file.len())
            }
            Self::Memory(bytes) => Some(bytes.len() as u64),
        }
    }
}

/// Failure while captures are read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the text of each error names its fields")]
pub enum CaptureError {
    /// A source cannot be read; it has a path if it is a file.
    #[error("{}{error}", prefix(path))]
    Io { error: io::Error, path: Option<PathBuf> },
    /// A source is no capture; it has a path if it is a file.
    #[error("{}{error}", prefix(path))]
    Capture { error: DecodeError, path: Option<PathBuf> },
    /// The columns do not fit together.
    #[error("{0}")]
    Arrow(ArrowError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Prefix of an error with the path of its source.
fn prefix(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advance {
    /// Records were passed to the callback.
    Seen,
    /// The next read may block.
    WouldWait,
    End,
}

/// Captures that are read one after the other, as batches or as text.
pub struct Captures {
    options: Options,
    sources: VecDeque<Source>,
    current: Option<Current>,
    batches: Batches,
    position: Arc<AtomicU64>,
}

struct Current {
    input: Input,
    path: Option<PathBuf>,
    dissector: Dissector,
}

impl Captures {
    /// Reader of sources. `position` counts the bytes read of all of them, compressed ones if they are.
    pub fn new(
        sources: VecDeque<Source>,
        options: Options,
        limits: Limits,
        position: Arc<AtomicU64>,
    ) -> Self {
        Self { options, sources, current: None, batches: Batches::new(limits), position }
    }

    /// Passes the next records, of one batch of one session, to `see`. A failing source is dropped, and
    /// the next call continues with the following one. Unless `patient`, a pipe is not waited for.
    fn advance(
        &mut self,
        patient: bool,
        mut see: impl FnMut(&mut Batches, &Record) -> Result<(), ArrowError>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Advance, CaptureError> {
        loop {
            if self.current.is_none() {
                let Some(source) = self.sources.pop_front() else { return Ok(Advance::End) };
                self.current = Some(Current::open(source, &self.options, &self.position)?);
            }
            let Some(mut current) = self.current.take() else { continue };
            match current.dissector.poll_records() {
                Err(error) => return Err(CaptureError::Capture { error, path: current.path }),
                Ok([]) if current.input.at_end => continue,
                Ok([]) if !patient && current.input.live => {
                    self.current = Some(current);
                    return Ok(Advance::WouldWait);
                }
                Ok([]) => {}
                Ok(records) => {
                    for record in records {
                        see(&mut self.batches, record).map_err(CaptureError::Arrow)?;
                    }
                    self.current = Some(current);
                    return Ok(Advance::Seen);
                }
            }
            match current.input.read() {
                // A signal; handled by the check below.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CaptureError::Io { error, path: current.path }),
                Ok(Some(chunk)) => current.dissector.push(chunk),
                Ok(None) => current.dissector.finish(),
            }
            self.current = Some(current);
            if stop() {
                return Err(CaptureError::Interrupted);
            }
        }
    }

    /// The next batch, full unless it is the last or `stop` returns true; an error ends its source.
    pub fn batch(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<RecordBatch>, CaptureError> {
        loop {
            if let Some(batch) = self.batches.pop() {
                return Ok(Some(batch));
            }
            let push = |batches: &mut Batches, record: &Record| {
                let end = |address: Option<_>| address.map(End::Address);
                batches.push(record, end(record.src).as_ref(), end(record.dst).as_ref())
            };
            if self.advance(true, push, stop)? == Advance::End {
                self.batches.finish().map_err(CaptureError::Arrow)?;
                return Ok(self.batches.pop());
            }
        }
    }

    /// The next piece of about a megabyte of text; empty at the end.
    pub fn text(
        &mut self,
        write: fn(&Record, &mut Vec<u8>),
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u8>, CaptureError> {
        let mut out = Vec::with_capacity(TEXT_AT_ONCE + TEXT_AT_ONCE / 8);
        while out.len() < TEXT_AT_ONCE {
            // Text that exists is returned at once, and does not wait for a pipe.
            let patient = out.is_empty();
            let write = |_: &mut Batches, record: &Record| {
                write(record, &mut out);
                Ok(())
            };
            match self.advance(patient, write, stop)? {
                Advance::Seen => {}
                Advance::WouldWait | Advance::End => break,
            }
        }
        Ok(out)
    }
}

impl Current {
    fn open(source: Source, options: &Options, position: &Arc<AtomicU64>) -> Result<Self, CaptureError> {
        let (input, path) = match source {
            Source::File(path) => match Input::file(&path, position.clone()) {
                Ok(input) => (input, Some(path)),
                Err(error) => return Err(CaptureError::Io { error, path: Some(path) }),
            },
            Source::Memory(bytes) => (Input::memory(bytes, position.clone()), None),
        };
        Ok(Self { input, path, dissector: Dissector::new(options.clone()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;

    fn captures(sources: Vec<Source>) -> (Captures, Arc<AtomicU64>) {
        let position = Arc::new(AtomicU64::new(0));
        let limits = Limits::new(1, 0).unwrap();
        (Captures::new(sources.into(), Options::default(), limits, position.clone()), position)
    }

    #[test]
    fn a_source_that_fails_is_left_out_and_the_next_one_is_read() {
        let missing = PathBuf::from("/no such folder/capture.pcap");
        let (mut captures, position) = captures(vec![
            Source::File(missing.clone()),
            Source::Memory(Bytes::from_static(b"no capture at all, but long enough for a header")),
        ]);
        let error = captures.batch(&mut || false).unwrap_err();
        assert!(matches!(&error, CaptureError::Io { path: Some(path), .. } if *path == missing));
        assert!(error.to_string().starts_with("/no such folder/capture.pcap: "));
        assert!(matches!(captures.batch(&mut || false), Err(CaptureError::Capture { path: None, .. })));
        assert_eq!(position.load(Ordering::Relaxed), 47);
        assert!(captures.batch(&mut || false).unwrap().is_none());
    }

    #[test]
    fn the_caller_stops_a_long_read() {
        let (mut captures, _) = captures(vec![Source::Memory(Bytes::from_static(&[0xa1, 0xb2]))]);
        assert!(matches!(captures.batch(&mut || true), Err(CaptureError::Interrupted)));
    }
}
