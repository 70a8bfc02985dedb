//! A service over HTTP (tokio and axum): `GET`, `PUT` and `DELETE` of `/keys/KEY`, `GET /stats`.
//!
//! The engine's calls may wait for storage, so they run on tokio's threads for blocking work. A
//! `Db` is a handle, which each request clones. It listens on loopback only, and ends when standard
//! input does.
//!
//! ```sh
//! cargo run -p shamba-examples --bin service -- service.db 8080
//! curl -X PUT --data-binary hello http://127.0.0.1:8080/keys/greeting
//! curl http://127.0.0.1:8080/keys/greeting
//! ```

use std::net::Ipv4Addr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use shamba::{Db, Error, MemoryBudget, Options, WriteOptions};
use tokio::io::AsyncReadExt;

/// Does something with the database where waiting is allowed.
async fn with<T: Send + 'static>(
    db: Db,
    work: impl FnOnce(&Db) -> shamba::Result<T> + Send + 'static,
) -> Result<T, Response> {
    let done = tokio::task::spawn_blocking(move || work(&db)).await;
    match done {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err((status_of(&error), error.to_string()).into_response()),
        Err(panic) => Err((StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()).into_response()),
    }
}

/// What an error is in HTTP's words.
fn status_of(error: &Error) -> StatusCode {
    match error {
        Error::KeyTooLarge { .. } | Error::ValueTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        // A full disk, or writes that wait too long for it.
        Error::Stalled { .. } => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

async fn read(State(db): State<Db>, Path(key): Path<String>) -> Result<Response, Response> {
    let found = with(db, move |db| db.get(key)).await?;
    Ok(match found {
        Some(value) => value.to_vec().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

async fn write(
    State(db): State<Db>,
    Path(key): Path<String>,
    value: Bytes,
) -> Result<StatusCode, Response> {
    // Who gets the answer may count on it.
    with(db, move |db| {
        db.put_with(key, value, WriteOptions::synced())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(State(db): State<Db>, Path(key): Path<String>) -> Result<StatusCode, Response> {
    with(db, move |db| db.delete_with(key, WriteOptions::synced())).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn stats(State(db): State<Db>) -> Result<String, Response> {
    with(db, |db| {
        let stats = db.stats();
        let budget = &stats.memory.budget;
        Ok(format!(
            "about {} keys; memory {} of {} bytes; {} lookups, {} pages read\n",
            db.approximate_len(),
            budget.used,
            budget.limit,
            stats.counters.lookups,
            stats.counters.data_pages + stats.counters.index_pages + stats.counters.filter_pages
        ))
    })
    .await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("say which folder to serve")?;
    let port = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let db = Options::new()
        .memory(MemoryBudget::bytes(32 << 20))
        .open(dir)?;
    let router = Router::new()
        .route("/keys/{key}", get(read).put(write).delete(remove))
        .route("/stats", get(stats))
        .with_state(db.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served: std::io::Result<()> = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        println!("http://{}", listener.local_addr()?);
        let ended = async {
            let mut rest = Vec::new();
            let _ended = tokio::io::stdin().read_to_end(&mut rest).await;
        };
        axum::serve(listener, router)
            .with_graceful_shutdown(ended)
            .await
    });
    served?;
    // All requests are answered: what they wrote goes to tables.
    db.close()?;
    Ok(())
}
