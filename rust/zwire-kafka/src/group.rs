//! Members of groups, and the generations in which they share partitions.
//!
//! A generation begins with a round in which all members join. The first of them leads: it gets what the others have
//! said, and hands in what each of them is assigned. A machine: time is an argument, and answers that have to wait
//! are asked for again.

use crate::{
    limits::{GATHER, MAX_MEMBER_BYTES, MAX_MEMBERS, MAX_PROTOCOLS, SESSIONS},
    wire::{
        Code,
        join_group::{JoinGroup, Joined},
        sync_group::SyncGroup,
    },
};
use bytes::Bytes;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use zwire_proto::Text;

/// All groups that have members.
#[derive(Default)]
pub(crate) struct Groups(HashMap<Text, Group>);

#[derive(Default)]
struct Group {
    generation: i32,
    kind: Text,
    protocol: Text,
    leader: String,
    phase: Phase,
    members: BTreeMap<String, Member>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    /// Members join until all have, but not before the first time and not after the second.
    Joining(Duration, Duration),
    /// The leader assigns partitions.
    Assigning,
    #[default]
    Stable,
}

struct Member {
    protocols: Vec<(Text, Bytes)>,
    session: Duration,
    rebalance: Duration,
    /// When it was heard of last.
    seen: Duration,
    /// Whether it waits for the generation that begins.
    joins: bool,
    assignment: Bytes,
}

impl Member {
    fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| **name == *protocol)
    }
}

impl Group {
    /// Begins a round, unless one has begun.
    fn rejoin(&mut self, now: Duration) {
        if !matches!(self.phase, Phase::Joining(..)) {
            let longest = self.members.values().map(|member| member.rebalance).max();
            self.phase = Phase::Joining(now, now + longest.unwrap_or_default());
        }
    }

    /// Removes members that are silent, and ends a round in which all others have joined.
    fn advance(&mut self, now: Duration) {
        let before = self.members.len();
        self.members.retain(|_, member| member.joins || now.saturating_sub(member.seen) < member.session);
        if self.members.len() < before {
            self.rejoin(now);
        }
        let Phase::Joining(begin, end) = self.phase else { return };
        if now < begin || (now < end && self.members.values().any(|member| !member.joins)) {
            return;
        }
        self.members.retain(|_, member| member.joins);
        self.generation = self.generation.wrapping_add(1).max(1);
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        let all = |name: &&Text| self.members.values().all(|member| member.supports(name));
        let wished = self.members.get(&self.leader).map_or(&[][..], |leader| &leader.protocols);
        self.protocol = wished.iter().map(|(name, _)| name).find(all).cloned().unwrap_or_default();
        for member in self.members.values_mut() {
            (member.joins, member.seen, member.assignment) = (false, now, Bytes::new());
        }
        self.phase = Phase::Assigning;
    }

    /// A member of a generation, which has been heard of.
    fn heard(&mut self, member: &str, generation: i32, now: Duration) -> Result<&mut Member, Code> {
        let current = self.generation;
        let member = self.members.get_mut(member).ok_or(Code::UnknownMemberId)?;
        if generation != current {
            return Err(Code::IllegalGeneration);
        }
        member.seen = now;
        Ok(member)
    }
}

impl Groups {
    /// Removes silent members of all groups, and groups without members.
    fn advance(&mut self, now: Duration) {
        self.0.retain(|_, group| {
            group.advance(now);
            !group.members.is_empty()
        });
    }

    /// A group after the time that has passed; one without members is removed.
    fn group(&mut self, name: &Text, now: Duration) -> Option<&mut Group> {
        let group = self.0.get_mut(name)?;
        group.advance(now);
        if group.members.is_empty() {
            self.0.remove(name);
        }
        self.0.get_mut(name)
    }

    /// Takes part in the next generation, as a new member of a `fresh` name if the request names none. Returns the
    /// name of the member, and the generation after which the answer comes.
    pub(crate) fn handle_join(
        &mut self,
        request: JoinGroup,
        fresh: String,
        now: Duration,
    ) -> Result<(String, i32), Code> {
        let millis = |time: i32| Duration::from_millis(u64::try_from(time).unwrap_or(0));
        let session = millis(request.session);
        if session < SESSIONS.0 || session > SESSIONS.1 {
            return Err(Code::InvalidSessionTimeout);
        }
        if request.group.is_empty() {
            return Err(Code::InvalidGroupId);
        }
        let names = request.group.len() + request.kind.len();
        let said: usize = request.protocols.iter().map(|(name, octets)| name.len() + octets.len()).sum();
        let known = !request.member.is_empty();
        let members = |groups: &Self| groups.0.values().map(|group| group.members.len()).sum::<usize>();
        if members(self) >= MAX_MEMBERS {
            self.advance(now);
        }
        let full = members(self) >= MAX_MEMBERS;
        let group = self.group(&request.group, now);
        if known && group.as_ref().is_none_or(|group| !group.members.contains_key(&*request.member)) {
            return Err(Code::UnknownMemberId);
        }
        let large = names + said > MAX_MEMBER_BYTES || request.protocols.len() > MAX_PROTOCOLS;
        if large || (full && !known) {
            return Err(Code::GroupMaxSizeReached);
        }
        let agrees = |group: &Group| {
            let mut others = group.members.iter().filter(|(name, _)| **name != *request.member);
            request.protocols.iter().any(|(name, _)| others.clone().all(|(_, member)| member.supports(name)))
                && (others.next().is_none() || group.kind == request.kind)
        };
        if request.protocols.is_empty() || group.is_some_and(|group| !agrees(group)) {
            return Err(Code::InconsistentGroupProtocol);
        }
        // Copies: slices would keep the whole request.
        let own = |(name, octets): &(Text, Bytes)| (Text::from(&**name), Bytes::copy_from_slice(octets));
        let protocols = request.protocols.iter().map(own).collect();
        let group = self.0.entry(Text::from(&*request.group)).or_default();
        let rebalance = millis(request.rebalance).clamp(session, SESSIONS.1);
        if group.members.is_empty() {
            group.phase = Phase::Joining(now + GATHER, now + rebalance);
        }
        group.rejoin(now);
        group.kind = Text::from(&*request.kind);
        let name = if known { request.member.to_string() } else { fresh };
        let member =
            Member { protocols, session, rebalance, seen: now, joins: true, assignment: Bytes::new() };
        group.members.insert(name.clone(), member);
        let before = group.generation;
        group.advance(now);
        Ok((name, before))
    }

    /// Answer to a member that has joined, once the generation has begun.
    pub(crate) fn poll_joined(
        &mut self,
        name: &Text,
        member: &str,
        before: i32,
        now: Duration,
    ) -> Option<Result<Joined, Code>> {
        let Some(group) = self.group(name, now) else { return Some(Err(Code::UnknownMemberId)) };
        if !group.members.contains_key(member) {
            return Some(Err(Code::UnknownMemberId));
        }
        if group.generation == before {
            return None;
        }
        let said = |(name, member): (&String, &Member)| {
            let (_, octets) = member.protocols.iter().find(|(name, _)| *name == group.protocol)?;
            Some((name.clone(), octets.clone()))
        };
        let leads = group.leader == member;
        Some(Ok(Joined {
            generation: group.generation,
            protocol: group.protocol.clone(),
            leader: group.leader.clone(),
            member: member.to_owned(),
            members: if leads { group.members.iter().filter_map(said).collect() } else { Vec::new() },
        }))
    }

    /// Takes the assignments of a leader.
    pub(crate) fn handle_sync(&mut self, request: &SyncGroup, now: Duration) -> Result<(), Code> {
        let group = self.group(&request.group, now).ok_or(Code::UnknownMemberId)?;
        group.heard(&request.member, request.generation, now)?;
        if *group.leader == *request.member && group.phase == Phase::Assigning {
            if request.assignments.iter().any(|(_, octets)| octets.len() > MAX_MEMBER_BYTES) {
                return Err(Code::GroupMaxSizeReached);
            }
            for (name, octets) in &request.assignments {
                if let Some(member) = group.members.get_mut(&**name) {
                    member.assignment = Bytes::copy_from_slice(octets);
                }
            }
            group.phase = Phase::Stable;
        }
        Ok(())
    }

    /// Assignment of a member, once the leader has handed it in.
    pub(crate) fn poll_synced(&mut self, request: &SyncGroup, now: Duration) -> Option<Result<Bytes, Code>> {
        let Some(group) = self.group(&request.group, now) else { return Some(Err(Code::UnknownMemberId)) };
        let phase = group.phase;
        match group.heard(&request.member, request.generation, now) {
            Err(code) => Some(Err(code)),
            Ok(member) => match phase {
                Phase::Joining(..) => Some(Err(Code::RebalanceInProgress)),
                Phase::Assigning => None,
                Phase::Stable => Some(Ok(member.assignment.clone())),
            },
        }
    }

    /// Notes that a member is alive.
    pub(crate) fn handle_heartbeat(
        &mut self,
        (name, generation, member): (&Text, i32, &str),
        now: Duration,
    ) -> Code {
        let Some(group) = self.group(name, now) else { return Code::UnknownMemberId };
        let joining = matches!(group.phase, Phase::Joining(..));
        match group.heard(member, generation, now) {
            Err(code) => code,
            Ok(_) if joining => Code::RebalanceInProgress,
            Ok(_) => Code::None,
        }
    }

    /// Removes a member.
    pub(crate) fn handle_leave(&mut self, name: &Text, member: &str, now: Duration) -> Code {
        let Some(group) = self.group(name, now) else { return Code::UnknownMemberId };
        if group.members.remove(member).is_none() {
            return Code::UnknownMemberId;
        }
        group.rejoin(now);
        self.group(name, now);
        Code::None
    }

    /// Checks that a commit is of the current generation, or of a program outside of a group without members.
    pub(crate) fn check_commit(
        &mut self,
        (name, generation, member): (&Text, i32, &str),
        now: Duration,
    ) -> Code {
        let alone = generation < 0 && member.is_empty();
        match self.group(name, now) {
            None if alone => Code::None,
            None => Code::UnknownMemberId,
            Some(_) if alone => Code::UnknownMemberId,
            Some(group) => group.heard(member, generation, now).map_or_else(|code| code, |_| Code::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "readers";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn join(groups: &mut Groups, member: &str, fresh: &str, now: Duration) -> Result<(String, i32), Code> {
        let protocols = vec![("range".into(), Bytes::from_static(b"topics"))];
        let request = JoinGroup {
            group: GROUP.into(),
            session: 10_000,
            rebalance: 60_000,
            member: member.into(),
            kind: "consumer".into(),
            protocols,
        };
        groups.handle_join(request, fresh.to_owned(), now)
    }

    fn joined(groups: &mut Groups, member: &str, now: Duration) -> Option<Result<Joined, Code>> {
        let before = groups.0.get(&Text::from(GROUP)).map_or(0, |group| match group.phase {
            Phase::Joining(..) => group.generation,
            _ => group.generation - 1,
        });
        groups.poll_joined(&GROUP.into(), member, before, now)
    }

    fn sync(
        groups: &mut Groups,
        member: &str,
        generation: i32,
        own: &[(&str, &'static [u8])],
        now: Duration,
    ) {
        let assignments =
            own.iter().map(|(name, octets)| ((*name).into(), Bytes::from_static(octets))).collect();
        let request = SyncGroup { group: GROUP.into(), generation, member: member.into(), assignments };
        groups.handle_sync(&request, now).unwrap();
    }

    fn synced(
        groups: &mut Groups,
        member: &str,
        generation: i32,
        now: Duration,
    ) -> Option<Result<Bytes, Code>> {
        let member = member.into();
        let request = SyncGroup { group: GROUP.into(), generation, member, assignments: Vec::new() };
        groups.poll_synced(&request, now)
    }

    fn heartbeat(groups: &mut Groups, member: &str, generation: i32, now: Duration) -> Code {
        groups.handle_heartbeat((&GROUP.into(), generation, member), now)
    }

    /// Two members of the first generation, with assignments.
    fn two() -> (Groups, Duration) {
        let mut groups = Groups::default();
        let now = seconds(1);
        join(&mut groups, "", "a", now).unwrap();
        assert_eq!(joined(&mut groups, "a", now), None);
        join(&mut groups, "", "b", now).unwrap();
        let now = now + GATHER;
        let lead = joined(&mut groups, "a", now).unwrap().unwrap();
        assert_eq!((lead.generation, &*lead.leader, lead.members.len()), (1, "a", 2));
        let other = joined(&mut groups, "b", now).unwrap().unwrap();
        assert_eq!((other.generation, &*other.leader, other.members.len()), (1, "a", 0));
        assert_eq!(synced(&mut groups, "b", 1, now), None);
        sync(&mut groups, "b", 1, &[("b", b"everything")], now);
        assert_eq!(synced(&mut groups, "b", 1, now), None, "only the leader assigns");
        sync(&mut groups, "a", 1, &[("a", b"0"), ("b", b"1")], now);
        assert_eq!(synced(&mut groups, "a", 1, now), Some(Ok(Bytes::from_static(b"0"))));
        assert_eq!(synced(&mut groups, "b", 1, now), Some(Ok(Bytes::from_static(b"1"))));
        (groups, now)
    }

    #[test]
    fn members_that_start_together_share_the_first_generation() {
        let (mut groups, now) = two();
        assert_eq!(heartbeat(&mut groups, "a", 1, now), Code::None);
        assert_eq!(heartbeat(&mut groups, "b", 2, now), Code::IllegalGeneration);
        assert_eq!(heartbeat(&mut groups, "c", 1, now), Code::UnknownMemberId);
    }

    #[test]
    fn a_member_that_comes_later_makes_the_others_join_again() {
        let (mut groups, now) = two();
        join(&mut groups, "", "c", now).unwrap();
        assert_eq!(joined(&mut groups, "c", now), None);
        assert_eq!(heartbeat(&mut groups, "a", 1, now), Code::RebalanceInProgress);
        join(&mut groups, "a", "", now).unwrap();
        assert_eq!(joined(&mut groups, "c", now), None);
        join(&mut groups, "b", "", now).unwrap();
        let third = joined(&mut groups, "c", now).unwrap().unwrap();
        assert_eq!((third.generation, &*third.leader), (2, "a"));
        assert_eq!(synced(&mut groups, "b", 1, now), Some(Err(Code::IllegalGeneration)));
    }

    #[test]
    fn a_member_that_leaves_or_is_silent_is_removed() {
        let (mut groups, now) = two();
        assert_eq!(groups.handle_leave(&GROUP.into(), "a", now), Code::None);
        assert_eq!(heartbeat(&mut groups, "b", 1, now), Code::RebalanceInProgress);
        join(&mut groups, "b", "", now).unwrap();
        let alone = joined(&mut groups, "b", now).unwrap().unwrap();
        assert_eq!((alone.generation, &*alone.leader, alone.members.len()), (2, "b", 1));
        let later = now + seconds(10);
        assert_eq!(heartbeat(&mut groups, "b", 2, later), Code::UnknownMemberId);
        assert!(groups.0.is_empty());
    }

    #[test]
    fn a_round_ends_without_members_that_do_not_join_again() {
        let (mut groups, mut now) = two();
        join(&mut groups, "", "c", now).unwrap();
        for _ in 0..12 {
            now += seconds(5);
            assert_eq!(joined(&mut groups, "c", now).is_some(), now >= seconds(61) + GATHER);
            if now < seconds(61) {
                assert_eq!(heartbeat(&mut groups, "a", 1, now), Code::RebalanceInProgress);
            }
        }
        let alone = joined(&mut groups, "c", now).unwrap().unwrap();
        assert_eq!((&*alone.leader, alone.members.len()), ("c", 1));
        assert_eq!(heartbeat(&mut groups, "a", 1, now), Code::UnknownMemberId);
    }

    #[test]
    fn members_that_cannot_agree_are_refused() {
        let (mut groups, now) = two();
        let request = |kind: &str, protocol: &str, session, octets| JoinGroup {
            group: GROUP.into(),
            session,
            rebalance: 60_000,
            member: Text::default(),
            kind: kind.into(),
            protocols: vec![(protocol.into(), octets)],
        };
        let few = Bytes::from_static(b"topics");
        let mut refused = |request| groups.handle_join(request, "d".to_owned(), now).unwrap_err();
        assert_eq!(
            refused(request("connect", "range", 10_000, few.clone())),
            Code::InconsistentGroupProtocol
        );
        assert_eq!(
            refused(request("consumer", "sticky", 10_000, few.clone())),
            Code::InconsistentGroupProtocol
        );
        assert_eq!(refused(request("consumer", "range", 10, few.clone())), Code::InvalidSessionTimeout);
        let many = vec![0; MAX_MEMBER_BYTES].into();
        assert_eq!(refused(request("consumer", "range", 10_000, many)), Code::GroupMaxSizeReached);
        assert_eq!(join(&mut groups, "d", "", now).unwrap_err(), Code::UnknownMemberId);
        assert_eq!(heartbeat(&mut groups, "a", 1, now), Code::None, "the others are not disturbed");
    }

    #[test]
    fn members_are_counted_over_all_groups() {
        let mut groups = Groups::default();
        let mut last = Ok(());
        for number in 0..=MAX_MEMBERS {
            let request = JoinGroup {
                group: format!("group {number}").into(),
                session: 10_000,
                rebalance: 10_000,
                member: Text::default(),
                kind: "consumer".into(),
                protocols: vec![("range".into(), Bytes::new())],
            };
            last = groups.handle_join(request, "m".to_owned(), seconds(1)).map(|_| ());
            assert_eq!(last.is_ok(), number < MAX_MEMBERS);
        }
        assert_eq!(last, Err(Code::GroupMaxSizeReached));
        // Members that are silent make room, of groups that are never asked for again as well.
        join(&mut groups, "", "late", seconds(1) + GATHER).unwrap_err();
        join(&mut groups, "", "late", seconds(12)).unwrap();
        assert_eq!(groups.0.len(), 1);
    }

    #[test]
    fn commits_are_of_the_current_generation_or_of_a_program_outside() {
        let (mut groups, now) = two();
        let mut check =
            |name: &str, generation, member| groups.check_commit((&name.into(), generation, member), now);
        assert_eq!(check(GROUP, 1, "a"), Code::None);
        assert_eq!(check(GROUP, 0, "a"), Code::IllegalGeneration);
        assert_eq!(check(GROUP, -1, ""), Code::UnknownMemberId);
        assert_eq!(check("other", -1, ""), Code::None);
        assert_eq!(check("other", 1, "a"), Code::UnknownMemberId);
    }
}
