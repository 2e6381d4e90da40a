"""The doctor: a read-only examination of a store's contents and integrity."""

from polycast.stores.doctor import report
from polycast.stores.doctor.examination import buses_in, examine, subscriptions_in
from polycast.stores.doctor.report import *
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, open_readonly

__all__ = ["ReadOnlyStore", "buses_in", "examine", "open_readonly", "subscriptions_in"]
__all__ += report.__all__
