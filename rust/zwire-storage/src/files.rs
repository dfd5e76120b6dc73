//! Volume of plain files, in the layout of `zenoh-backend-filesystem`: the file of a key has the key as its path.
//!
//! Times, encodings and attachments are in a volume `disk` in a hidden folder beside the files. A file that another
//! program has written or changed has the time of its change, and an encoding by its extension.

use crate::{
    Disk,
    error::{Error, Result},
    keyed::KeyValue,
    rules::Value,
    volume::{Persistence, Reach, Store as _},
};
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    fs::{self, File, Metadata},
    io::{self, Write as _},
    path::{MAIN_SEPARATOR, Path, PathBuf},
    time::UNIX_EPOCH,
};
use zwire_proto::zenoh::{Encoding, Ntp64, Timestamp, ZenohId};

/// File of the prefix itself.
const ROOT: &str = "@root";
/// End of the name of a file beside a folder of the same name.
const BESIDE: &str = ".##z";
/// Folder of what files cannot hold.
const INFO: &str = ".zwire_datainfo";
/// Folder of the same in the original, which has another format.
const FOREIGN: &str = ".zenoh_datainfo";
/// Beginning of the names of files that are being written.
const UNFINISHED: &str = ".zwire-unfinished-";

/// Memory for pages of the hidden volume.
const CACHE: usize = 16 << 20;

/// Settings of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderSettings {
    /// Whether updates are refused.
    pub read_only: bool,
    /// Whether symbolic links are followed, also out of the folder.
    pub follow_links: bool,
    /// Whether the encoding follows from the extension alone.
    pub guess_encoding: bool,
    /// Whether all files are deleted when the storage ends.
    pub delete_at_end: bool,
}

/// Files of a folder.
pub struct Folder {
    root: PathBuf,
    settings: FolderSettings,
    info: Disk,
    /// Folders that were changed since the last call of `sync`.
    unsynced: Mutex<BTreeSet<PathBuf>>,
    count: AtomicU64,
}

impl Folder {
    /// Opens a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// It cannot be used, or another storage uses it.
    pub fn open(root: &Path, settings: FolderSettings) -> Result<Self> {
        fs::create_dir_all(root).map_err(|source| Error::Io { file: root.to_owned(), source })?;
        let info = Disk::open(&root.join(INFO), CACHE)?;
        Ok(Self {
            root: root.to_owned(),
            settings,
            info,
            unsynced: Mutex::default(),
            count: AtomicU64::new(0),
        })
    }

    /// Path of the file of a key.
    fn place(&self, key: &str) -> Result<PathBuf> {
        let mut path = self.root.clone();
        if key.is_empty() {
            path.push(ROOT);
            return Ok(path);
        }
        for (number, chunk) in key.split('/').enumerate() {
            let reserved = number == 0 && [ROOT, INFO, FOREIGN].contains(&chunk);
            let is_name =
                !chunk.is_empty() && chunk != "." && chunk != ".." && chunk.len() + BESIDE.len() <= 255;
            let plain =
                !chunk.contains(['\0', '\\']) && !chunk.ends_with(BESIDE) && !chunk.starts_with(UNFINISHED);
            if reserved || !is_name || !plain || (cfg!(windows) && !is_name_of_windows(chunk)) {
                return Err(Error::Volume {
                    action: "name a file",
                    problem: format!("{key:?}: {chunk:?} is no name"),
                });
            }
            path.push(chunk);
        }
        Ok(path)
    }

    /// Existing file of a key with its properties.
    fn find(&self, key: &str) -> Result<Option<(PathBuf, Metadata)>> {
        let path = self.place(key)?;
        if !self.settings.follow_links && self.crosses_link(&path) {
            return Ok(None);
        }
        for path in [beside(&path), path] {
            let found =
                if self.settings.follow_links { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
            match found {
                Ok(meta) if meta.is_file() => return Ok(Some((path, meta))),
                Ok(_) => {}
                Err(error) if is_absent(&error) => {}
                Err(source) => return Err(Error::Io { file: path, source }),
            }
        }
        Ok(None)
    }

    /// Whether a folder on the way to the path is a symbolic link.
    fn crosses_link(&self, path: &Path) -> bool {
        let between = path.ancestors().skip(1).take_while(|folder| *folder != self.root);
        between.into_iter().any(|folder| fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_symlink()))
    }

    /// Makes the folders of a file. A file in the place of one of them moves beside it.
    fn make_way(&self, path: &Path) -> io::Result<()> {
        let mut folders: Vec<&Path> =
            path.ancestors().skip(1).take_while(|folder| *folder != self.root).collect();
        while let Some(folder) = folders.pop() {
            match fs::symlink_metadata(folder) {
                Ok(meta) if meta.is_file() => {
                    fs::rename(folder, beside(folder))?;
                    fs::create_dir(folder)?;
                }
                Ok(_) => continue,
                Err(error) if is_absent(&error) => fs::create_dir(folder)?,
                Err(error) => return Err(error),
            }
            self.has_changed(folder);
        }
        Ok(())
    }

    fn write(&self, path: &Path, payload: &[u8]) -> io::Result<PathBuf> {
        self.make_way(path)?;
        let target = if path.is_dir() { beside(path) } else { path.to_owned() };
        let folder = target.parent().unwrap_or(&self.root);
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let unfinished = folder.join(format!("{UNFINISHED}{number}"));
        // A crash leaves the file as it was, or as it shall be: its octets are on the disk before its name is.
        let written = File::create(&unfinished).and_then(|mut file| {
            file.write_all(payload)?;
            file.sync_data()
        });
        if let Err(error) = written.and_then(|()| fs::rename(&unfinished, &target)) {
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        self.has_changed(&target);
        Ok(target)
    }

    /// Notes that the folder of a path has changed.
    fn has_changed(&self, path: &Path) {
        self.unsynced.lock().insert(path.parent().unwrap_or(&self.root).to_owned());
    }

    /// Removes folders without files above a path.
    fn tidy(&self, path: &Path) {
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != self.root) {
            if fs::remove_dir(folder).is_err() {
                return;
            }
            self.has_changed(folder);
        }
    }

    fn writable(&self, action: &'static str) -> Result<()> {
        if self.settings.read_only {
            return Err(Error::Volume { action, problem: "the volume is read-only".to_owned() });
        }
        Ok(())
    }

    /// Time and properties of a file: those noted with it, unless the file has changed since.
    fn about(&self, key: &str, path: &Path, meta: &Metadata) -> Result<(Timestamp, Encoding, Option<Bytes>)> {
        let noted = self.info.get(key)?.filter(|(_, noted)| noted.payload == print(meta));
        let guessed =
            || path.extension().and_then(|end| end.to_str()).map_or(Encoding::DEFAULT, by_extension);
        Ok(match noted {
            Some((stamp, noted)) => {
                let encoding = if self.settings.guess_encoding { guessed() } else { noted.encoding };
                (stamp, encoding, noted.attachment)
            }
            None => (changed(meta), guessed(), None),
        })
    }

    /// Keys of the files below a folder, with their paths.
    fn walk(&self, each: &mut dyn FnMut(String, &Path, &Metadata) -> Result<()>) -> Result<()> {
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            let entries =
                fs::read_dir(&folder).map_err(|source| Error::Io { file: folder.clone(), source })?;
            for entry in entries {
                let path = entry.map_err(|source| Error::Io { file: folder.clone(), source })?.path();
                let meta = if self.settings.follow_links {
                    fs::metadata(&path)
                } else {
                    fs::symlink_metadata(&path)
                };
                // It may be gone meanwhile.
                let Ok(meta) = meta else { continue };
                let Some(key) = self.key_of(&path) else { continue };
                if meta.is_dir() {
                    folders.push(path);
                } else if meta.is_file() {
                    each(key, &path, &meta)?;
                }
            }
        }
        Ok(())
    }

    /// Key of a path below the folder; `None` for what is no file of a key.
    fn key_of(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.root).ok()?.to_str()?;
        let own = [INFO, FOREIGN].iter().any(|own| name.starts_with(own));
        if own || path.file_name()?.to_str()?.starts_with(UNFINISHED) {
            return None;
        }
        let key = name.strip_suffix(BESIDE).unwrap_or(name);
        Some(if key == ROOT { String::new() } else { key.replace(MAIN_SEPARATOR, "/") })
    }
}

/// Whether Windows takes a chunk of a key for the name of one file in its folder. A colon would lead to another drive or to
/// a stream of another file, and devices have names in every folder.
pub(crate) fn is_name_of_windows(chunk: &str) -> bool {
    const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
    let stem = chunk.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_port = ["COM", "LPT"].iter().any(|port| {
        let number = stem.strip_prefix(port).map(|rest| rest.chars().collect::<Vec<_>>());
        matches!(number.as_deref(), Some(['0'..='9' | '¹' | '²' | '³']))
    });
    !chunk.contains(|c: char| c.is_ascii_control() || r#"<>:"|?*\/"#.contains(c))
        && !chunk.ends_with(['.', ' '])
        && !DEVICES.contains(&stem.as_str())
        && !is_port
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(BESIDE);
    name.into()
}

/// An error of a file: its update is refused if the name, the size or the owner of the file is the reason. Else the storage
/// waits until the disk works again.
fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    use io::ErrorKind as Kind;
    match source.kind() {
        Kind::InvalidFilename
        | Kind::InvalidInput
        | Kind::FileTooLarge
        | Kind::NotADirectory
        | Kind::IsADirectory
        | Kind::AlreadyExists
        | Kind::PermissionDenied => {
            Error::Volume { action, problem: format!("{}: {source}", path.display()) }
        }
        _ => Error::Io { file: path.to_owned(), source },
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn modified(meta: &Metadata) -> Duration {
    meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default()
}

/// Sign that a file is as it was: its size and the time of its last change.
fn print(meta: &Metadata) -> Bytes {
    let mut octets = meta.len().to_le_bytes().to_vec();
    octets.extend_from_slice(&modified(meta).as_nanos().to_le_bytes());
    octets.into()
}

/// Time of a file of another program: that of its last change, with the id of the original.
fn changed(meta: &Metadata) -> Timestamp {
    let time = Ntp64::from_duration(modified(meta)).unwrap_or(Ntp64::MAX);
    Timestamp { time, id: ZenohId::from_random([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) }
}

fn by_extension(end: &str) -> Encoding {
    match end.to_ascii_lowercase().as_str() {
        "txt" | "md" | "log" => Encoding::TEXT_PLAIN,
        "json" => Encoding::APPLICATION_JSON,
        "xml" => Encoding::from_text("application/xml"),
        "yaml" | "yml" => Encoding::from_text("application/yaml"),
        "html" | "htm" => Encoding::from_text("text/html"),
        "css" => Encoding::from_text("text/css"),
        "csv" => Encoding::from_text("text/csv"),
        "js" => Encoding::from_text("text/javascript"),
        "png" => Encoding::from_text("image/png"),
        "jpg" | "jpeg" => Encoding::from_text("image/jpeg"),
        "gif" => Encoding::from_text("image/gif"),
        _ => Encoding::DEFAULT,
    }
}

impl KeyValue for Folder {
    fn persistence(&self) -> Persistence {
        Persistence::Durable
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn put(&self, key: &str, stamp: Timestamp, value: &Value) -> Result<()> {
        self.writable("store a value")?;
        let path = self.place(key)?;
        if !self.settings.follow_links && self.crosses_link(&path) {
            let problem = format!("{key:?}: a folder on the way is a symbolic link");
            return Err(Error::Volume { action: "store a value", problem });
        }
        let failed = |source| failed("store a value", &path, source);
        let written = self.write(&path, &value.payload).map_err(failed)?;
        let meta = fs::symlink_metadata(&written).map_err(failed)?;
        let noted = Value { payload: print(&meta), ..value.clone() };
        self.info.change(Reach::Visible, &mut |table| table.put(key, stamp, stamp, &noted))
    }

    fn delete(&self, key: &str, _: Timestamp) -> Result<()> {
        self.writable("delete a key")?;
        if let Some((path, _)) = self.find(key)? {
            match fs::remove_file(&path) {
                Err(error) if !is_absent(&error) => return Err(failed("delete a key", &path, error)),
                _ => self.has_changed(&path),
            }
            self.tidy(&path);
        }
        self.info.change(Reach::Visible, &mut |table| table.remove(key))
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        let Some((path, meta)) = self.find(key)? else { return Ok(None) };
        let (stamp, encoding, attachment) = self.about(key, &path, &meta)?;
        let payload = fs::read(&path).map_err(|source| Error::Io { file: path, source })?.into();
        Ok(Some((stamp, Value { payload, encoding, attachment })))
    }

    fn keys(&self) -> Result<Vec<(String, Timestamp)>> {
        let mut keys = Vec::new();
        self.walk(&mut |key, path, meta| {
            let (stamp, ..) = self.about(&key, path, meta)?;
            keys.push((key, stamp));
            Ok(())
        })?;
        Ok(keys)
    }

    fn stamp(&self, key: &str) -> Result<Option<Timestamp>> {
        let Some((path, meta)) = self.find(key)? else { return Ok(None) };
        Ok(Some(self.about(key, &path, &meta)?.0))
    }

    fn sync(&self) -> Result<()> {
        let mut unsynced = core::mem::take(&mut *self.unsynced.lock());
        while let Some(path) = unsynced.pop_first() {
            // Windows opens no folders; NTFS journals their entries.
            let synced =
                if cfg!(windows) { Ok(()) } else { File::open(&path).and_then(|file| file.sync_all()) };
            match synced {
                Err(error) if !is_absent(&error) => {
                    unsynced.insert(path.clone());
                    self.unsynced.lock().append(&mut unsynced);
                    return Err(Error::Io { file: path, source: error });
                }
                _ => {}
            }
        }
        self.info.change(Reach::Durable, &mut |_| Ok(()))
    }

    fn reopen(&self) -> Result<()> {
        self.info.reopen()
    }

    fn close(&self) -> Result<()> {
        self.info.close()?;
        if self.settings.delete_at_end && !self.settings.read_only {
            fs::remove_dir_all(&self.root).map_err(|source| Error::Io { file: self.root.clone(), source })?;
        }
        Ok(())
    }
}
