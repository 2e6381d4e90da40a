"""What is in a store and whether it is well: looked at without changing anything."""

from polycast.stores.doctor.examination import examine
from polycast.stores.doctor.readonly_store import ReadOnlyStore, open_readonly
from polycast.stores.doctor.report import (
    BusFigures,
    Damage,
    Integrity,
    LetterFigures,
    LogFigures,
    PinFigures,
    RetentionFigures,
    RoutingFigures,
    StoreProblem,
    StoreReport,
    SubscriptionFigures,
    SyncCost,
    TypeFigures,
)
from polycast.stores.doctor.subscribers import buses_in, subscriptions_in

__all__ = [
    "BusFigures",
    "Damage",
    "Integrity",
    "LetterFigures",
    "LogFigures",
    "PinFigures",
    "ReadOnlyStore",
    "RetentionFigures",
    "RoutingFigures",
    "StoreProblem",
    "StoreReport",
    "SubscriptionFigures",
    "SyncCost",
    "TypeFigures",
    "buses_in",
    "examine",
    "open_readonly",
    "subscriptions_in",
]
