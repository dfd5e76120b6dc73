//! Sessions of ours over each kind of link, and what is wrong with endpoints.

mod links;

use links::{Scratch, carries_everything};

#[test]
fn tcp_carries_everything() {
    carries_everything("tcp/127.0.0.1:0", "", "");
}

#[cfg(unix)]
mod unix {
    use super::*;
    use links::{QUIET, client, try_open};
    use std::os::unix::net::UnixListener;
    use std::{fs, path::PathBuf};
    use zwire_engine::{Error, Session};

    fn endpoint(scratch: &Scratch) -> (PathBuf, String) {
        let path = scratch.0.join("node");
        let endpoint = format!("unixsock-stream/{}", path.display());
        (path, endpoint)
    }

    fn listen(endpoint: &str) -> Result<Session, Error> {
        try_open(&format!("{{mode: 'router', listen: {{endpoints: ['{endpoint}']}}, {QUIET}}}"))
    }

    #[test]
    fn unix_sockets_carry_everything() {
        let scratch = Scratch::new("unix-carry");
        carries_everything(&endpoint(&scratch).1, "", "");
    }

    #[test]
    fn a_closed_session_leaves_no_file() {
        let scratch = Scratch::new("unix-close");
        let (path, endpoint) = endpoint(&scratch);
        let hub = listen(&endpoint).unwrap();
        assert_eq!(hub.listening()[0], endpoint);
        assert!(path.exists());
        let error = listen(&endpoint).err().expect("one listener at a time").to_string();
        assert!(error.contains("another process listens there"), "{error}");
        assert!(path.exists(), "the loser removes nothing");
        hub.close().unwrap();
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
        listen(&endpoint).unwrap();
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced() {
        let scratch = Scratch::new("unix-stale");
        let (path, endpoint) = endpoint(&scratch);
        // As after SIGKILL: socket and lock file are there, nobody holds them.
        drop(UnixListener::bind(&path).unwrap());
        fs::write(scratch.0.join("node.lock"), b"").unwrap();
        let hub = listen(&endpoint).unwrap();
        client(&hub.listening()[0], "");
    }

    #[test]
    fn what_is_not_ours_stays() {
        let scratch = Scratch::new("unix-foreign");
        let (path, endpoint) = endpoint(&scratch);
        fs::write(&path, b"precious").unwrap();
        let error = listen(&endpoint).err().expect("a file is no socket").to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        let _server = UnixListener::bind(&path).unwrap();
        let error = listen(&endpoint).err().expect("somebody else listens").to_string();
        assert!(error.contains("something listens there"), "{error}");
        assert!(path.exists());
    }
}
