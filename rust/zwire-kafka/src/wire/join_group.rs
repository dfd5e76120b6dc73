//! `JoinGroup`: a member takes part in the next generation of its group.
//!
//! ```text
//! request: group, session in ms (4), from 1: rebalance in ms (4), member, from 5: instance, kind,
//!          protocols { name, octets }
//! answer:  from 2: throttle (4), error (2), generation (4), protocol, leader, member,
//!          members { member, from 5: instance, octets }: those of the protocol, for the leader
//! ```

use super::{
    Code, Read, int32, list, nullable_text, octets, put_code, put_list, put_nullable_text, put_octets,
    put_text, put_throttle, since, text,
};
use bytes::{BufMut as _, Bytes};
use zwire_proto::{Text, buf::Reader};

/// A request. Instances are not distinguished: a member that restarts is a new one.
#[derive(Clone, Debug)]
pub(crate) struct JoinGroup {
    pub(crate) group: Text,
    pub(crate) session: i32,
    pub(crate) rebalance: i32,
    pub(crate) member: Text,
    pub(crate) kind: Text,
    pub(crate) protocols: Vec<(Text, Bytes)>,
}

impl JoinGroup {
    pub(crate) fn decode(r: &mut Reader<'_>, version: i16) -> Read<Self> {
        let group = text(r, "JoinGroup group")?;
        let session = int32(r, "JoinGroup session")?;
        let rebalance = since(version, 1, session, || int32(r, "JoinGroup rebalance"))?;
        let member = text(r, "JoinGroup member")?;
        since(version, 5, None, || nullable_text(r, "JoinGroup instance"))?;
        let kind = text(r, "JoinGroup kind")?;
        let protocols = list(r, 6, "JoinGroup protocols", |r| {
            Ok((text(r, "JoinGroup protocol")?, octets(r, "JoinGroup octets of a protocol")?))
        })?;
        Ok(Self { group, session, rebalance, member, kind, protocols })
    }
}

/// Generation that a member has joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol: Text,
    pub(crate) leader: String,
    pub(crate) member: String,
    pub(crate) members: Vec<(String, Bytes)>,
}

/// Encodes an answer.
pub(crate) fn encode(joined: &Result<Joined, Code>, out: &mut Vec<u8>, version: i16) {
    put_throttle(out, version, 2);
    let joined = match joined {
        Ok(joined) => {
            put_code(out, Code::None);
            joined
        }
        Err(code) => {
            put_code(out, *code);
            &Joined {
                generation: -1,
                protocol: Text::default(),
                leader: String::new(),
                member: String::new(),
                members: Vec::new(),
            }
        }
    };
    out.put_i32(joined.generation);
    put_text(out, &joined.protocol);
    put_text(out, &joined.leader);
    put_text(out, &joined.member);
    put_list(out, joined.members.iter(), |out, (member, octets)| {
        put_text(out, member);
        if version >= 5 {
            put_nullable_text(out, None);
        }
        put_octets(out, octets);
    });
}
