//! Numbers of faces and routers.

use core::fmt;

/// The number of a face, chosen by the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FaceId(pub u32);

impl fmt::Debug for FaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "face {}", self.0)
    }
}

/// Our number for a router.
pub(super) type RouterIx = u16;
