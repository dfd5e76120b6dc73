//! The compiled Python module `zwire._zwire`.

#![allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]

#[macro_use]
mod classes;

mod arrow;
mod bridge;
mod capture;
mod columns;
mod config;
mod errors;
mod http;
mod log;
mod loops;
mod mqtt;
mod options;
mod ros2;
mod spool;
mod stats;
mod storage;
mod zenoh;
mod zmtp;
mod zre;

use pyo3::prelude::*;

/// The module with its exports.
#[pymodule(gil_used = false)]
mod _zwire {
    use super::*;

    #[pymodule_export]
    use crate::{
        arrow::ArrowBatch,
        bridge::{ZreBridgeHandle, zre_uuid_of},
        capture::{decoder::Decoder, frames::FrameDecoder},
        columns::column_tables,
        config::{PyConfig, config_check, config_defaults, config_explain, tls_authority, tls_certificate},
        http::PyHttpServer,
        log::{
            init_log_from_env_or, log_close, log_flush, log_has_lines, log_levels, log_limit, log_names,
            log_reader, log_take, try_init_log_from_env,
        },
        loops::{
            inbox::Inbox,
            pending::{Pending, Stopper, begin_put, without_waiting},
            turn::{end_turn, spend},
            waking::{WakeThread, Wakeups},
        },
        mqtt::MqttHandle,
        ros2::{CdrColumns, CdrPlan, CdrSource},
        spool::{
            append::SpoolAppender,
            compact::SpoolCompactor,
            kafka::SpoolKafka,
            range::{SpoolAnswer, SpoolReceiver, SpoolServer},
            reshard::SpoolResharding,
            view::{SpoolRows, SpoolView},
            writer::SpoolWriter,
        },
        storage::StorageHandle,
        zenoh::{
            advanced::{
                CacheConfig, HistoryConfig, MissDetectionConfig, PyMiss, RecoveryConfig, RepliesConfig,
                declare_advanced_publisher, declare_advanced_subscriber,
            },
            authoriser::PyAccessRequest,
            encoding::PyEncoding,
            enums::PyQueryConsolidation,
            handlers::{
                BatchCallback, Callback, Channel, DefaultHandler, FifoChannel, Handler, LatestChannel,
                RingChannel,
            },
            info::{
                Link, LinkEvent, LinkEventsListener, SessionInfo, Transport, TransportEvent,
                TransportEventsListener,
            },
            keyexpr::PyKeyExpr,
            liveliness::{Liveliness, LivelinessToken},
            loan::{Loan, SharedPool, ZShm},
            matcher::PyWhatAmIMatcher,
            publisher::{AdvancedPublisher, MatchingListener, MatchingStatus, Publisher},
            put_batch::{PutSummary, put_batch},
            querier::Querier,
            queryable::{Query, Queryable, end_query, failure_of},
            reply::{CancellationToken, Reply, ReplyError},
            sample::{PySample, PySourceInfo},
            scout::{Hello, Scout, scout},
            selector::{PyParameters, PySelector},
            session::{Session, close_all, open},
            stamps::{
                PyTimestampInstrumentation, PyTimestampInstrumentationBuilder, PyTimestampStack,
                PyTimestampStackRecord, TimestampContext,
            },
            subscriber::{AdvancedSubscriber, SampleMissListener, Subscriber},
            timestamp::{PyNtp64, PyTimestamp, PyTimestampId},
            zbytes::PyZBytes,
            zid::{PyEntityGlobalId, PyZenohId},
        },
        zmtp::socket::{PyEvent as ZmtpEvent, PySocket, zmtp_keypair},
        zre::{
            events::{
                Enter, Evasive, Event, Exit, Join, Leader, Leave, MessagesLost, Shout, Silent, Stop, Whisper,
            },
            log::{LogCollector, LogRecord, LogSender},
            node::{Node, Shouted, zre_keypair, zre_log_hash},
        },
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::log::install();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::zenoh::encoding::add_predefined(module.py())
    }
}
