//! Simulation of a slow network.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

/// Forwards datagrams to `to` at 20 Mbit/s behind a queue of 50 ms, and those in the other direction at
/// once.
pub(crate) fn slow_path(to: SocketAddr) -> SocketAddr {
    const RATE: f64 = 2.5e6;
    const QUEUE: Duration = Duration::from_millis(50);
    let near = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    far.connect(to).unwrap();
    let address = near.local_addr().unwrap();
    let (sender, queue) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
    let (out, back, home) = (far.clone(), far, near.clone());
    // All of them end with the process.
    std::thread::spawn(move || {
        for (at, datagram) in queue {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            // The other side may be gone.
            let _ = out.send(&datagram);
        }
    });
    std::thread::spawn(move || {
        let (mut buf, mut free, mut known) = ([0; 65_536], Instant::now(), false);
        while let Ok((len, from)) = near.recv_from(&mut buf) {
            if !core::mem::replace(&mut known, true) {
                let (back, home) = (back.clone(), home.clone());
                std::thread::spawn(move || {
                    let mut buf = [0; 65_536];
                    while let Ok(len) = back.recv(&mut buf) {
                        let _ = home.send_to(&buf[..len], from);
                    }
                });
            }
            let start = free.max(Instant::now());
            if start <= Instant::now() + QUEUE {
                free = start + Duration::from_secs_f64(len as f64 / RATE);
                let _ = sender.send((free, buf[..len].to_vec()));
            }
        }
    });
    address
}
