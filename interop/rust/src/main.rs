//! Drives the crate; the lines that it reads and writes are in ../../doc.go.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ticketing::{Ticket, TicketBroker, TicketError, TlsMode};
use tokio::io::{AsyncBufReadExt, BufReader};

type Tickets = Arc<Mutex<HashMap<String, Ticket>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let tls = if args[2].is_empty() { TlsMode::Off } else { TlsMode::Ca(args[2].clone().into()) };
    let broker = TicketBroker::builder().addrs(args[0].split(',').map(String::from)).token(args[1].clone()).tls(tls).connect()?;
    let tickets = Tickets::default();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let (broker, tickets) = (broker.clone(), tickets.clone());
        tokio::spawn(async move {
            let words: Vec<&str> = line.split(' ').collect();
            let outcome = run(&broker, &tickets, &words).await.unwrap_or_else(|err| format!("failed {}", kind(&err)));
            println!("{} {outcome}", words[1]);
        });
    }
    std::process::exit(0) // not by dropping the tickets: that would release them
}

async fn run(broker: &TicketBroker, tickets: &Tickets, words: &[&str]) -> Result<String, TicketError> {
    match words {
        ["ready", _, limit] => Ok(format!("ready {}", broker.wait_ready(seconds(limit)).await)),
        ["acquire", id, wait, lease, key] => {
            let ticket = broker.acquire(key, seconds(wait), seconds(lease)).await?;
            let outcome = format!("granted {}", ticket.token());
            tickets.lock().unwrap().insert(id.to_string(), ticket);
            Ok(outcome)
        }
        ["release", _, grant] => {
            let ticket = tickets.lock().unwrap().remove(*grant).expect("a grant that was given");
            Ok(format!("released {}", ticket.release().await?))
        }
        _ => panic!("no such request: {words:?}"),
    }
}

fn seconds(word: &str) -> Duration {
    Duration::from_secs_f64(word.parse().expect("seconds"))
}

/// The names that the other clients give their errors.
fn kind(err: &TicketError) -> &'static str {
    match err {
        TicketError::Timeout => "timeout",
        TicketError::NotConnected => "not_connected",
        TicketError::Auth => "auth",
        TicketError::InvalidInput(_) => "invalid_input",
        TicketError::Protocol(_) => "protocol",
        TicketError::Io(_) => "io",
    }
}
