"""Every error polycast raises, as one tree.

PolycastError
├── NotATypeError                     subscribing to, or publishing as, what is no event type
├── NameClashError                    two different classes under one wire name on one bus
├── NotShareableError                 a class that no other process could name, on a shared bus
├── NotSerialisableError              a value that has no form on the wire
├── NotDecodableError                 bytes that are no event of the expected kind
├── MethodNotHereError                a method of a class this process does not have
├── FilterError                       a filter that is wrong
│   ├── FilterMistakeError            it names what its type cannot have, or does what it cannot do
│   ├── FilterSyntaxError             a text that is none of its language; it shows where
│   ├── FilterTooCostlyError          a part of one from outside whose cost nothing bounds
│   ├── FilterTypeError               a text that puts together what never goes together
│   ├── NotRoutableError              the pipeline could ask nothing of it
│   ├── NoSparkFormError              a part of it that no Spark column can compute exactly
│   └── NoSparkTypeError              an annotation that no Spark column can hold exactly
├── BadTopicError                     a topic that cannot be published to or subscribed to
├── BadCallbackError                  a callback that cannot take an event
├── NotAwaitedError                   a function gave a coroutine where nobody runs it
├── BadOptionError                    an option that does not exist, or a value it does not take
├── NotAvailableError                 a part that is not installed or not built
├── BusClosedError                    using a bus after close()
├── SubscriptionEndedError            using a subscription that is over
│   ├── SubscriptionCancelledError    it was cancelled
│   ├── LeaseExpiredError             its lease ran out
│   ├── TakenOverError                its durable name was attached elsewhere
│   └── CutOffError                   its queue was full and its policy is "cut_off"
├── DurableChangedError               a durable name attached with another definition
├── ForkedError                       using in a forked process what its parent opened
├── NoHistoryError                    since= on a bus that keeps no history
├── HistoryGoneError                  since= before the oldest event kept
├── QueueFullError                    overflow="block" reached its deadline; nothing was accepted
├── PublishBufferFullError            the store is not done with what was published before
├── PublishUnknownError               it is not known whether the event was accepted
├── NotSettledError                   an acknowledgement that came too late or twice
├── StoreError                        a store that cannot be used as asked
│   ├── NotAStoreError                a file that is no store, or one of a newer version
│   ├── StoreClosedError              using a store after it was closed
│   ├── StoreFailedError              the disk is full or failing: nothing more is accepted
│   │   └── StoreReplacedError        the file was removed or replaced while it was open
│   ├── StoreDamagedError             what was read is not what was written
│   └── BrokerError                   a broker that cannot be used as asked
│       ├── BrokerUnreachableError    none answers at the address, or not in time
│       ├── BrokerRefusedError        it does not do what was asked
│       │   └── LimitReachedError     more than it takes from one connection
│       └── BadFrameError             bytes from the other side that are no message
├── PipelineError                     a pipeline that cannot be used as asked
│   ├── BadCheckpointError            a folder that it cannot go on from
│   ├── PipelineFailedError           it had to stop
│   └── PipelineTakenOverError        another was started over the same store
├── ContextError                      a context that cannot be used as asked
│   ├── BadContextError               what was given is no context, or no part of one
│   ├── ContextRefusedError           a check found errors
│   ├── ContextFrozenError            changing a context that is in a federation
│   ├── ContextConflictError          a store has another declaration under its name
│   ├── BadResultError                a function gave something else than it has to
│   ├── EventTooDeepError             an event that holds itself
│   └── NotTranslatedError            an event that cannot get from one context to another
├── AccessError                       rights and safe connections that are not as they must be
│   ├── AccessDeniedError             a token has no right to what was asked
│   ├── BadTokensError                a file of tokens that cannot be used
│   ├── BadGrantError                 a text that is no grant
│   ├── ExposedError                  listening to other machines without tokens and TLS
│   ├── TokenExposedError             a token that would go to another machine without TLS
│   └── BadCertificateError           a certificate, key or authority that TLS cannot use
├── NoRowError                        an event that a table of its type cannot hold
├── NotAPullCollectionError           get(), len() or iteration without pull=
└── WouldDeadlockError                waiting for itself, from inside a callback
"""

from polycast.errors import arguments, contexts, delivery, filters, server, stores
from polycast.errors.arguments import *
from polycast.errors.contexts import *
from polycast.errors.delivery import *
from polycast.errors.filters import *
from polycast.errors.root import PolycastError
from polycast.errors.server import *
from polycast.errors.stores import *

__all__ = ["PolycastError"]
__all__ += arguments.__all__
__all__ += contexts.__all__
__all__ += delivery.__all__
__all__ += filters.__all__
__all__ += server.__all__
__all__ += stores.__all__
