//! Addresses of stores, and their credentials.
//!
//! An address never has credentials: it is noted in files and shown by Spark. They come from the environment
//! (`AWS_…`, `GOOGLE_…`, `AZURE_…`), from the profile of the AWS tools, or from the instance, in this order.

use core::fmt;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, CredentialProvider, ObjectStore, ObjectStoreScheme,
    RetryConfig,
    aws::{AmazonS3Builder, AwsCredential},
    azure::MicrosoftAzureBuilder,
    client::{HttpClient, HttpConnector},
    gcp::GoogleCloudStorageBuilder,
    local::LocalFileSystem,
    path::Path as ObjectPath,
};
use rustls::{ClientConfig, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt as _;
use std::{
    collections::HashMap,
    env, fs,
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use url::Url;
use zwire_spool::{Error, Result};

/// Purpose of a client, which decides how long it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
    /// Small objects that are written and read again and again: an answer that is late is as good as none.
    Lease,
}

impl Access {
    /// Time in which a connection has to be established.
    const fn connect(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::Lease) { 1 } else { 5 })
    }

    /// Longest time without octets of an answer. A writer waits until a part is sent, also over a slow link.
    const fn read(self) -> Duration {
        match self {
            Self::Read => Duration::from_secs(10),
            Self::Write => Duration::from_secs(120),
            Self::Lease => Duration::from_secs(2),
        }
    }

    /// Time in which a request is repeated after errors of the server.
    const fn retry(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::Lease) { 2 } else { 25 })
    }
}

/// Schemes of addresses.
const SCHEMES: [&str; 9] = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "file"];

/// Address of the objects of one spool.
#[derive(Clone, Debug)]
pub struct Place {
    url: Url,
    /// The address without a slash at its end.
    text: String,
    kind: ObjectStoreScheme,
    root: ObjectPath,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Place {
    /// Reads an address such as `s3://bucket/prefix` or `file:///folder`. Fails with [`Error::Usage`] for one that
    /// is none, or has credentials.
    pub fn parse(text: &str) -> Result<Self> {
        // Without the text: it may have credentials.
        let wrong = |problem: &str| Error::Usage(format!("the address of a store: {problem}"));
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !SCHEMES.contains(&url.scheme()) {
            return Err(wrong(&format!("{} is not one of {}", url.scheme(), SCHEMES.join(", "))));
        }
        let container = matches!(url.scheme(), "az" | "azure" | "abfs" | "abfss" | "adl");
        if url.password().is_some() || !(container || url.username().is_empty()) || url.query().is_some() {
            return Err(wrong("credentials do not belong there; give them in the environment"));
        }
        if url.fragment().is_some() {
            return Err(wrong("it has a fragment"));
        }
        let (kind, root) = ObjectStoreScheme::parse(&url).map_err(|error| wrong(&error.to_string()))?;
        let text = text.trim_end_matches('/').to_owned();
        Ok(Self { url, text, kind, root })
    }

    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Store in a folder.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self> {
        match Url::from_file_path(folder) {
            Ok(url) => Self::parse(url.as_str()),
            Err(()) => Err(Error::Usage(format!("{}: a store has an absolute path", folder.display()))),
        }
    }

    /// Folder of a store in files.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        matches!(self.kind, ObjectStoreScheme::Local).then(|| self.url.to_file_path().ok()).flatten()
    }

    /// Client of the store, and the path of the objects in it. For a writer, a missing folder is made.
    pub(crate) fn connect(&self, access: Access) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        let failed = |problem: String| Error::Unreachable { place: self.text.clone(), problem, at: None };
        if let Some(folder) = self.folder() {
            if access != Access::Read {
                fs::create_dir_all(&folder).map_err(|error| failed(error.to_string()))?;
            }
            let store =
                LocalFileSystem::new_with_prefix(&folder).map_err(|error| failed(error.to_string()))?;
            return Ok((Arc::new(store.with_fsync(true)), ObjectPath::default()));
        }
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(3),
                base: 2.0,
            },
            max_retries: 10,
            retry_timeout: access.retry(),
        };
        let connector = Connector(access);
        let url = self.url.to_string();
        let store: object_store::Result<Arc<dyn ObjectStore>> = match self.kind {
            ObjectStoreScheme::AmazonS3 => amazon(url, retry, connector).map(|store| Arc::new(store) as _),
            ObjectStoreScheme::GoogleCloudStorage => GoogleCloudStorageBuilder::from_env()
                .with_url(url)
                .with_retry(retry)
                .with_http_connector(connector)
                .build()
                .map(|store| Arc::new(store) as _),
            _ => MicrosoftAzureBuilder::from_env()
                .with_url(url)
                .with_retry(retry)
                .with_http_connector(connector)
                .build()
                .map(|store| Arc::new(store) as _),
        };
        Ok((store.map_err(|error| failed(error.to_string()))?, self.root.clone()))
    }
}

fn amazon(
    url: String,
    retry: RetryConfig,
    connector: Connector,
) -> object_store::Result<object_store::aws::AmazonS3> {
    amazon_builder(url, retry, connector).build()
}

fn amazon_builder(url: String, retry: RetryConfig, connector: Connector) -> AmazonS3Builder {
    let given = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut builder =
        AmazonS3Builder::from_env().with_url(url).with_retry(retry).with_http_connector(connector);
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .into_iter()
        .find_map(|name| env::var(name).ok());
    if let Some(endpoint) = endpoint {
        let plain = endpoint.starts_with("http://");
        builder = builder.with_endpoint(endpoint).with_allow_http(plain);
    }
    let profile = Profile::find();
    if !given("AWS_REGION")
        && !given("AWS_DEFAULT_REGION")
        && let Some(region) = profile.as_ref().and_then(Profile::region)
    {
        builder = builder.with_region(region);
    }
    // The environment says which credentials the process has; without a word, the profile of the user does.
    let said = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
    let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    if !said.into_iter().chain([full, "AWS_SKIP_SIGNATURE"]).any(given)
        && let Some(profile) = profile.filter(|profile| profile.credential().is_some())
    {
        builder = builder.with_credentials(Arc::new(profile));
    }
    builder
}

/// A bucket of S3 with what its configuration says; the environment and the profile of the AWS tools say the rest.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BucketSettings {
    /// Name of the bucket.
    pub bucket: String,
    /// Address of the server, such as `http://127.0.0.1:9000`.
    pub endpoint: Option<String>,
    /// Region of the bucket.
    pub region: Option<String>,
    /// Access key and secret key.
    pub keys: Option<(String, String)>,
}

impl fmt::Debug for BucketSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the keys.
        write!(f, "{} at {:?} in {:?}", self.bucket, self.endpoint, self.region)
    }
}

/// Client of a bucket.
pub(crate) fn connect_bucket(settings: &BucketSettings, place: &Place) -> Result<Arc<dyn ObjectStore>> {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(1),
        base: 2.0,
    };
    // The storage itself repeats what has failed for longer.
    let retry = RetryConfig { backoff, max_retries: 4, retry_timeout: Access::Write.retry() };
    let connector = Connector(Access::Write);
    let mut builder = amazon_builder(place.url.to_string(), retry, connector);
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
    }
    if let Some(region) = &settings.region {
        builder = builder.with_region(region);
    }
    if let Some((key, secret)) = &settings.keys {
        builder = builder.with_access_key_id(key).with_secret_access_key(secret);
    }
    let unusable =
        |error: object_store::Error| Error::Usage(format!("the bucket {}: {error}", settings.bucket));
    builder.build().map(|store| Arc::new(store) as _).map_err(unusable)
}

/// Profile of the AWS tools. Its file is read for each request, so that keys which are replaced there are used.
#[derive(Debug)]
struct Profile {
    name: String,
    credentials: PathBuf,
    config: PathBuf,
}

impl Profile {
    fn find() -> Option<Self> {
        let home = env::home_dir()?.join(".aws");
        let path = |name, file| env::var_os(name).map_or_else(|| home.join(file), PathBuf::from);
        Some(Self {
            name: env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned()),
            credentials: path("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: path("AWS_CONFIG_FILE", "config"),
        })
    }

    fn region(&self) -> Option<String> {
        section(&self.config, &self.name)?.remove("region")
    }

    fn credential(&self) -> Option<AwsCredential> {
        [&self.credentials, &self.config].into_iter().find_map(|path| {
            let mut found = section(path, &self.name)?;
            Some(AwsCredential {
                key_id: found.remove("aws_access_key_id")?,
                secret_key: found.remove("aws_secret_access_key")?,
                token: found.remove("aws_session_token"),
            })
        })
    }
}

/// Settings of one profile in a file of the AWS tools: `[name]` or `[profile name]`, and lines `key = value`.
fn section(path: &Path, name: &str) -> Option<HashMap<String, String>> {
    let text = fs::read_to_string(path).ok()?;
    let mut found = None;
    let mut inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let title = title.trim();
            inside = title.strip_prefix("profile ").map_or(title, str::trim) == name;
            if inside {
                found.get_or_insert_with(HashMap::new);
            }
        } else if let (true, Some(settings), Some((key, value))) = (inside, &mut found, line.split_once('='))
        {
            settings.insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    found
}

impl CredentialProvider for Profile {
    type Credential = AwsCredential;

    fn get_credential<'a, 'async_trait>(
        &'a self,
    ) -> Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'async_trait>>
    where
        'a: 'async_trait,
        Self: 'async_trait,
    {
        let found = self.credential().map(Arc::new).ok_or_else(|| object_store::Error::Generic {
            store: "S3",
            source: format!("{}: profile {} has no keys", self.credentials.display(), self.name).into(),
        });
        Box::pin(std::future::ready(found))
    }
}

/// Maker of HTTP clients. The crypto provider is passed explicitly: the process may have chosen another one.
#[derive(Clone, Copy, Debug)]
struct Connector(Access);

impl Connector {
    fn client(
        self,
        plain: bool,
    ) -> core::result::Result<reqwest::Client, Box<dyn std::error::Error + Send + Sync>> {
        let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_platform_verifier()?
            .with_no_client_auth();
        // One connection for each request in progress is faster than one for all.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .https_only(!plain)
            .http1_only()
            .connect_timeout(self.0.connect())
            .read_timeout(self.0.read())
            .user_agent(concat!("zwire/", env!("CARGO_PKG_VERSION")));
        Ok(client.build()?)
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain =
            options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let client =
            self.client(plain).map_err(|source| object_store::Error::Generic { store: "HTTP", source })?;
        Ok(HttpClient::new(client))
    }
}

/// Words in the answers of stores without the container.
const NO_CONTAINER: [&str; 4] =
    ["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist", "FilesystemNotFound"];
/// Words in the answers of stores that refuse credentials with another status than 401 or 403.
const REFUSED: [&str; 5] =
    ["ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "TokenRefreshRequired"];
/// Most characters of an answer in an error.
const MAX_TEXT: usize = 600;

/// Error of a store as one of the spool.
pub(crate) fn failed(
    place: &Place,
    path: &ObjectPath,
    doing: &'static str,
    error: &object_store::Error,
) -> Error {
    let full = error.to_string();
    // Stores that answer in XML say there what is wrong; the rest is addresses, and numbers of the request.
    let element = |name: &str| {
        let (_, rest) = full.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
    };
    let said = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => full.clone(),
    };
    let words = format!("could not {doing} {path}: {said}");
    let problem: String =
        words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_TEXT).collect();
    let has = |words: &[&str]| words.iter().any(|word| full.contains(word));
    let unreachable = |problem| Error::Unreachable { place: place.to_string(), problem, at: None };
    if matches!(error, object_store::Error::NotFound { .. }) {
        if has(&NO_CONTAINER) || place.folder().is_some_and(|folder| !folder.is_dir()) {
            return unreachable(problem);
        }
        let source = Arc::new(io::Error::from(io::ErrorKind::NotFound));
        // The address has the first parts of the path already.
        let name = path.prefix_match(&place.root).map(|parts| parts.collect::<ObjectPath>());
        let name = name.as_ref().unwrap_or(path);
        return Error::Io { doing, path: Path::new(place.as_str()).join(name.as_ref()), source };
    }
    let denied = matches!(
        error,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }
    );
    if denied || has(&REFUSED) {
        return Error::Denied { place: place.to_string(), problem, at: None };
    }
    unreachable(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_known_scheme_and_no_credentials() {
        for text in
            ["s3://bucket/a/b/", "gs://bucket", "abfs://box@account.dfs.core.windows.net/a", "file:///tmp/x"]
        {
            assert_eq!(Place::parse(text).unwrap().as_str(), text.trim_end_matches('/'));
        }
        for text in [
            "s3://key:secret@bucket/a",
            "s3://key@bucket",
            "gs://b/a?token=secret",
            "s3://b/a#secret",
            "http://x",
        ] {
            let error = Place::parse(text).unwrap_err();
            assert!(matches!(error, Error::Usage(_)) && !error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_profile_is_read_from_the_files_of_the_aws_tools() {
        let dir = env::temp_dir().join(format!("zwire-profile-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (credentials, config) = (dir.join("credentials"), dir.join("config"));
        fs::write(&credentials, "[default]\naws_access_key_id=d\n\n[robots]\n# x\naws_access_key_id = k\naws_secret_access_key = s=1\n").unwrap();
        fs::write(&config, "[default]\nregion = a\n[profile robots]\nregion = eu-1\n").unwrap();
        let profile = Profile { name: "robots".to_owned(), credentials: credentials.clone(), config };
        let found = profile.credential().unwrap();
        assert_eq!((&*found.key_id, &*found.secret_key, found.token), ("k", "s=1", None));
        assert_eq!(profile.region().as_deref(), Some("eu-1"));
        assert!(Profile { name: "default".to_owned(), ..profile }.credential().is_none(), "it has no secret");
        fs::remove_dir_all(&dir).unwrap();
    }
}
