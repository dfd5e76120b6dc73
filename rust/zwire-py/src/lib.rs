//! The compiled Python module `zwire._zwire`.

mod advanced;
mod advanced_publisher;
mod advanced_subscriber;
mod arrow;
mod calling;
mod columns;
mod config;
mod declared;
mod decode;
mod decode_columns;
mod decode_frames;
mod decode_source;
mod decode_zmtp;
mod encoding;
mod enums;
mod errors;
mod events;
mod handlers;
mod inbox;
mod info;
mod interrupt;
mod keyexpr;
mod liveliness;
mod log;
mod matcher;
mod once;
mod open_query;
mod parameters;
mod pending;
mod pool;
mod publisher;
mod put_batch;
mod put_stamps;
mod querier;
mod queryable;
mod reply;
mod sample;
mod scout;
mod selector;
mod session;
mod spool;
mod spool_append;
mod spool_range;
mod spooler;
mod stamps;
mod stats;
mod subscriber;
mod timestamp;
mod waking;
mod zbytes;
mod zid;
mod zmtp;
mod zmtp_arrow;
mod zmtp_options;
mod zre;
mod zre_arrow;
mod zre_events;
mod zre_log;
mod zre_settings;

use pyo3::prelude::*;

/// The module with its exports.
#[pymodule(gil_used = false)]
mod _zwire {
    use super::*;

    #[pymodule_export]
    use crate::{
        advanced::{CacheConfig, HistoryConfig, MissDetectionConfig, PyMiss, RecoveryConfig, RepliesConfig},
        advanced_publisher::{AdvancedPublisher, declare_advanced_publisher},
        advanced_subscriber::{AdvancedSubscriber, SampleMissListener, declare_advanced_subscriber},
        arrow::ArrowBatch,
        columns::column_tables,
        config::{PyConfig, config_defaults},
        decode::Decoder,
        decode_frames::FrameDecoder,
        encoding::PyEncoding,
        enums::PyQueryConsolidation,
        events::{LinkEvent, LinkEventsListener, TransportEvent, TransportEventsListener},
        handlers::{
            BatchCallback, Callback, Channel, DefaultHandler, FifoChannel, Handler, LatestChannel,
            RingChannel,
        },
        inbox::Inbox,
        info::{Link, SessionInfo, Transport},
        keyexpr::PyKeyExpr,
        liveliness::{Liveliness, LivelinessToken},
        log::{
            init_log_from_env_or, log_close, log_flush, log_has_lines, log_levels, log_limit, log_names,
            log_reader, log_take, try_init_log_from_env,
        },
        matcher::PyWhatAmIMatcher,
        parameters::PyParameters,
        pending::{Pending, Stopper, without_waiting},
        publisher::{MatchingListener, MatchingStatus, Publisher},
        put_batch::{PutSummary, put_batch},
        querier::Querier,
        queryable::{Query, Queryable, end_query},
        reply::{CancellationToken, Reply, ReplyError},
        sample::{PyEntityGlobalId, PySample, PySourceInfo},
        scout::{Hello, Scout, scout},
        selector::PySelector,
        session::{Session, close_all, open},
        spool::{SpoolRows, SpoolView},
        spool_append::SpoolAppender,
        spool_range::{SpoolAnswer, SpoolReceiver, SpoolServer},
        spooler::SpoolWriter,
        stamps::{
            PyTimestampInstrumentation, PyTimestampInstrumentationBuilder, PyTimestampStack,
            PyTimestampStackRecord, TimestampContext,
        },
        subscriber::Subscriber,
        timestamp::{PyNtp64, PyTimestamp, PyTimestampId},
        waking::{WakeThread, Wakeups},
        zbytes::PyZBytes,
        zid::PyZenohId,
        zmtp::{PyEvent as ZmtpEvent, PySocket, zmtp_keypair},
        zre::{Node, Shouted, zre_keypair, zre_log_hash},
        zre_events::{
            Enter, Evasive, Event, Exit, Join, Leader, Leave, MessagesLost, Shout, Silent, Stop, Whisper,
        },
        zre_log::{LogCollector, LogRecord, LogSender},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::log::install();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::encoding::add_predefined(module.py())
    }
}
