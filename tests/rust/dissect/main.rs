//! The dissector against captures of real peers and the logs of their applications, complete and
//! damaged.

mod captures;
mod damage;
mod foreign;
mod frames;
mod made;
mod run;
mod truth;
mod zmtp;
mod zmtp_damage;
mod zmtp_made;
mod zre;
