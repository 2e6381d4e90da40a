"""Every error polycast raises, as one tree.

PolycastError
├── NotAType            subscribing to, or publishing as, what is no event type
├── NameClash           two different classes under one wire name on one bus
├── NotShareable        a class that no other process could name, on a shared bus
├── NotSerialisable     a value that has no form on the wire
├── NotDecodable        bytes that are no event of the expected kind
├── MethodNotHere       a method of a class this process does not have
├── FilterError         a filter that is wrong
│   ├── FilterMistake   it names what its type cannot have, or does what it cannot do
│   ├── FilterSyntaxError  a text that is none of its language; it shows where
│   ├── FilterTooCostly a part of one from outside whose cost nothing bounds
│   ├── FilterTypeError    a text that puts together what never goes together
│   ├── NotRoutable     the pipeline could ask nothing of it
│   ├── NoSparkForm     a part of it that no Spark column can compute exactly
│   └── NoSparkType     an annotation that no Spark column can hold exactly
├── BadTopic            a topic that cannot be published to or subscribed to
├── BadCallback         a callback that cannot take an event
├── NotAwaitedError     a function gave a coroutine or a generator where nobody runs it
├── BadOption           an option that does not exist, or a value it does not take
├── NotAvailable        a part that is not installed or not built
├── BusClosed           using a bus after close()
├── SubscriptionEnded   using a subscription that is over
│   ├── Cancelled       it was cancelled
│   ├── LeaseExpired    its lease ran out
│   ├── TakenOver       its durable name was attached elsewhere
│   └── CutOff          its queue was full and its policy is "cut_off"
├── DurableChanged      a durable name attached with another definition
├── ForkedError         using in a forked process what its parent opened
├── NoHistory           since= on a bus that keeps no history
├── HistoryGone         since= before the oldest event kept
├── QueueFull           overflow="block" reached its deadline; nothing was accepted
├── PublishBufferFullError  the store is not done with what was published before
├── PublishUnknown      it is not known whether the event was accepted
├── NotSettled          an acknowledgement that came too late or twice
├── StoreError          a store that cannot be used as asked
│   ├── NotAStore       a file that is no store, or one of a newer version
│   ├── StoreClosed     using a store after it was closed
│   ├── StoreFailed     the disk is full or failing: nothing more is accepted
│   │   └── StoreReplacedError  the file was removed or replaced while it was open
│   ├── StoreDamaged    what was read is not what was written
│   └── BrokerError     a broker that cannot be used as asked
│       ├── BrokerUnreachable  none answers at the address, or not in time
│       ├── BrokerRefused      it does not do what was asked
│       │   └── LimitReached   more than it takes from one connection
│       └── BadFrame           bytes from the other side that are no message
├── PipelineError       a pipeline that cannot be used as asked
│   ├── BadCheckpoint   a folder that it cannot go on from
│   ├── PipelineFailed  it had to stop
│   └── PipelineTakenOver  another was started over the same store
├── ContextError        a context that cannot be used as asked
│   ├── BadContext      what was given is no context, or no part of one
│   ├── ContextRefused  a check found errors
│   ├── ContextFrozen   changing a context that is in a federation
│   ├── ContextConflictError  a store has another declaration under its name
│   ├── BadResultError  a function gave something else than it has to
│   ├── EventTooDeepError  an event that holds itself
│   └── NotTranslated   an event that cannot get from one context to another
├── AccessError         rights and safe connections that are not as they must be
│   ├── AccessDenied    a token has no right to what was asked
│   ├── BadTokens       a file of tokens that cannot be used
│   ├── BadGrant        a text that is no grant
│   ├── Exposed         listening to other machines without tokens and TLS
│   ├── TokenExposedError  a token that would go to another machine without TLS
│   └── BadCertificate  a certificate, key or authority that TLS cannot use
├── NoRow               an event that a table of its type cannot hold
├── NotAPullCollection  get(), len() or iteration without pull=
└── WouldDeadlock       waiting for itself, from inside a callback
"""

from polycast.errors.arguments import (
    BadCallback,
    BadOption,
    BadTopic,
    NotAvailable,
    NotAwaitedError,
)
from polycast.errors.broker import (
    BadFrame,
    BrokerError,
    BrokerRefused,
    BrokerUnreachable,
    LimitReached,
)
from polycast.errors.contexts import (
    BadContext,
    BadResultError,
    ContextConflictError,
    ContextError,
    ContextFrozen,
    ContextRefused,
    EventTooDeepError,
    NotTranslated,
)
from polycast.errors.delivery import (
    BusClosed,
    Cancelled,
    CutOff,
    DurableChanged,
    ForkedError,
    HistoryGone,
    LeaseExpired,
    NoHistory,
    NotAPullCollection,
    NotSettled,
    PublishBufferFullError,
    PublishUnknown,
    QueueFull,
    SubscriptionEnded,
    TakenOver,
    WouldDeadlock,
)
from polycast.errors.filters import (
    FilterError,
    FilterMistake,
    FilterSyntaxError,
    FilterTooCostly,
    FilterTypeError,
    NoSparkForm,
    NoSparkType,
    NotRoutable,
)
from polycast.errors.pipeline import (
    BadCheckpoint,
    NoRow,
    PipelineError,
    PipelineFailed,
    PipelineTakenOver,
)
from polycast.errors.root import PolycastError
from polycast.errors.server import (
    AccessDenied,
    AccessError,
    BadCertificate,
    BadGrant,
    BadTokens,
    Exposed,
    TokenExposedError,
)
from polycast.errors.stores import (
    NotAStore,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreReplacedError,
)
from polycast.errors.types import (
    MethodNotHere,
    NameClash,
    NotAType,
    NotDecodable,
    NotSerialisable,
    NotShareable,
)

__all__ = [
    "AccessDenied",
    "AccessError",
    "BadCallback",
    "BadCertificate",
    "BadCheckpoint",
    "BadContext",
    "BadFrame",
    "BadGrant",
    "BadOption",
    "BadResultError",
    "BadTokens",
    "BadTopic",
    "BrokerError",
    "BrokerRefused",
    "BrokerUnreachable",
    "BusClosed",
    "Cancelled",
    "ContextConflictError",
    "ContextError",
    "ContextFrozen",
    "ContextRefused",
    "CutOff",
    "DurableChanged",
    "EventTooDeepError",
    "Exposed",
    "FilterError",
    "FilterMistake",
    "FilterSyntaxError",
    "FilterTooCostly",
    "FilterTypeError",
    "ForkedError",
    "HistoryGone",
    "LeaseExpired",
    "LimitReached",
    "MethodNotHere",
    "NameClash",
    "NoHistory",
    "NoRow",
    "NoSparkForm",
    "NoSparkType",
    "NotAPullCollection",
    "NotAStore",
    "NotAType",
    "NotAvailable",
    "NotAwaitedError",
    "NotDecodable",
    "NotRoutable",
    "NotSerialisable",
    "NotSettled",
    "NotShareable",
    "NotTranslated",
    "PipelineError",
    "PipelineFailed",
    "PipelineTakenOver",
    "PolycastError",
    "PublishBufferFullError",
    "PublishUnknown",
    "QueueFull",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "StoreReplacedError",
    "SubscriptionEnded",
    "TakenOver",
    "TokenExposedError",
    "WouldDeadlock",
]
