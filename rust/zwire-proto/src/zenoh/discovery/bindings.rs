//! [`Binding`]: ids and roles that only certain users or certificates may claim.

use crate::zenoh::{Remote, WhatAmI, ZenohId};

/// Ids, or roles, and the proof that a node needs to claim one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Ids that are bound; `None`: the roles are bound.
    pub zids: Option<Vec<ZenohId>>,
    /// Roles that are bound, or, with ids, that these ids may have; `None`: any.
    pub roles: Option<Vec<WhatAmI>>,
    /// Users that may claim them.
    pub usernames: Vec<String>,
    /// Names in certificates of nodes that may claim them.
    pub common_names: Vec<String>,
}

/// What a node has proved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proof<'a> {
    /// User with a password.
    pub username: Option<&'a str>,
    /// Name in a certificate.
    pub common_name: Option<&'a str>,
}

/// Result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// Neither the id nor the role is bound.
    Free,
    /// The node has proved the id: it takes the place of another session under it.
    Bound,
    /// The id or the role is bound, and the node has not proved it.
    Refused,
}

impl Binding {
    fn has_zid(&self, zid: ZenohId) -> bool {
        self.zids.as_ref().is_some_and(|zids| zids.contains(&zid))
    }

    fn has_role(&self, role: WhatAmI) -> bool {
        self.roles.as_ref().is_none_or(|roles| roles.contains(&role))
    }

    fn is_proved(&self, proof: Proof<'_>) -> bool {
        let one_of =
            |names: &[String], name: Option<&str>| name.is_some_and(|name| names.iter().any(|n| n == name));
        one_of(&self.usernames, proof.username) || one_of(&self.common_names, proof.common_name)
    }

    /// Judges the claim of a node to an id and a role.
    #[must_use]
    pub fn judge(all: &[Self], claim: Remote, proof: Proof<'_>) -> ClaimVerdict {
        let of_zid: Vec<&Self> = all.iter().filter(|binding| binding.has_zid(claim.zid)).collect();
        let owns = of_zid.iter().any(|one| one.has_role(claim.whatami) && one.is_proved(proof));
        if !of_zid.is_empty() && !owns {
            return ClaimVerdict::Refused;
        }
        let mut of_role =
            all.iter().filter(|one| one.zids.is_none() && one.has_role(claim.whatami)).peekable();
        // An id that is bound together with the role proves the role, too.
        let named = of_zid.iter().any(|one| one.roles.is_some() && one.has_role(claim.whatami)) && owns;
        if of_role.peek().is_some() && !named && !of_role.any(|one| one.is_proved(proof)) {
            return ClaimVerdict::Refused;
        }
        if owns { ClaimVerdict::Bound } else { ClaimVerdict::Free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ClaimVerdict::{Bound, Free, Refused};
    use WhatAmI::{Client, Peer, Router};

    fn zid(number: u128) -> ZenohId {
        ZenohId::new(number).unwrap()
    }

    fn judge(all: &[Binding], number: u128, whatami: WhatAmI, user: &str, name: &str) -> ClaimVerdict {
        let some = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let proof = Proof { username: some(user), common_name: some(name) };
        Binding::judge(all, Remote { zid: zid(number), whatami }, proof)
    }

    #[test]
    fn ids_belong_to_those_that_prove_them() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let all = [
            Binding {
                zids: Some(vec![zid(1), zid(2)]),
                usernames: names(&["ann", "bob"]),
                ..Binding::default()
            },
            Binding { zids: Some(vec![zid(1)]), common_names: names(&["robot"]), ..Binding::default() },
        ];
        for (number, user, name, verdict) in [
            (1, "ann", "", Bound),
            (2, "bob", "", Bound),
            (1, "", "robot", Bound),
            (2, "", "robot", Refused),
            (1, "eve", "", Refused),
            (1, "", "", Refused),
            // The name of a certificate is no user.
            (1, "robot", "", Refused),
            (3, "", "", Free),
            (3, "ann", "", Free),
        ] {
            assert_eq!(judge(&all, number, Client, user, name), verdict, "{number} {user} {name}");
        }
    }

    #[test]
    fn roles_belong_to_those_that_prove_them() {
        let names = |name: &str| vec![name.to_owned()];
        let router = Binding { roles: Some(vec![Router]), common_names: names("hub"), ..Binding::default() };
        let own = Binding {
            zids: Some(vec![zid(1)]),
            roles: Some(vec![Router]),
            usernames: names("ann"),
            ..Binding::default()
        };
        let all = [router, own];
        for (number, role, user, name, verdict) in [
            (5, Router, "", "hub", Free),
            (5, Router, "", "", Refused),
            (5, Peer, "", "", Free),
            (1, Router, "ann", "", Bound),
            (1, Client, "ann", "", Refused),
            (1, Router, "", "hub", Refused),
        ] {
            assert_eq!(judge(&all, number, role, user, name), verdict, "{number} {role} {user} {name}");
        }
        // Everything is bound: each node needs a proof.
        let all = [Binding { usernames: names("ann"), ..Binding::default() }];
        assert_eq!(judge(&all, 5, Client, "", ""), Refused);
        assert_eq!(judge(&all, 5, Client, "ann", ""), Free);
    }
}
