//! Payloads under construction.

use super::{HEADER, aligned};

/// A payload under construction, with its lowest byte first.
#[derive(Clone, Debug)]
pub struct Output(Vec<u8>);

impl Default for Output {
    fn default() -> Self {
        Self(vec![0, 1, 0, 0])
    }
}

impl Output {
    /// The payload.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Fills up to a multiple of a size.
    pub fn align(&mut self, size: usize) {
        self.0.resize(HEADER + aligned(self.0.len() - HEADER, size), 0);
    }

    /// Appends a number: its bytes, the lowest one first.
    pub fn number<const N: usize>(&mut self, octets: [u8; N]) {
        self.align(N);
        self.0.extend_from_slice(&octets);
    }

    /// Appends numbers of a size: their bytes, the lowest one of each first.
    pub fn numbers(&mut self, size: usize, octets: &[u8]) {
        if !octets.is_empty() {
            self.align(size);
        }
        self.0.extend_from_slice(octets);
    }

    /// Appends the number of items that follow; `None` if it has no form.
    #[must_use]
    pub fn count(&mut self, count: usize) -> Option<()> {
        self.number(u32::try_from(count).ok()?.to_le_bytes());
        Some(())
    }

    /// Appends a text; `None` if it is too long.
    #[must_use]
    pub fn text(&mut self, text: &str) -> Option<()> {
        self.count(text.len().checked_add(1)?)?;
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        Some(())
    }
}
