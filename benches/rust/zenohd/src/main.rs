//! Router of Eclipse Zenoh with its REST plug-in and its storage manager linked in: a peer of benchmarks.
//!
//! Its argument is the configuration in JSON5. It prints `ready` when it listens, and ends with its input.

use std::io::{Read, Write};

use zenoh::internal::runtime::RuntimeBuilder;
use zenoh_plugin_trait::Plugin;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let text = std::env::args().nth(1).ok_or("the configuration is missing")?;
    let config = zenoh::Config::from_json5(&text)?;
    let mut plugins = Vec::new();
    let mut router = RuntimeBuilder::new(config.clone()).build().await?;
    let runtime = router.clone().into();
    if config.get_json("plugins/storage_manager").is_ok_and(|of| of != "null") {
        plugins.push(zenoh_plugin_storage_manager::StoragesPlugin::start("storage_manager", &runtime)?);
    }
    if config.get_json("plugins/rest").is_ok_and(|of| of != "null") {
        plugins.push(zenoh_plugin_rest::RestPlugin::start("rest", &runtime)?);
    }
    let session = zenoh::session::init(runtime).await?;
    router.start().await?;
    println!("ready");
    std::io::stdout().flush()?;
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    session.close().await?;
    Ok(())
}
