"""polycast: publish objects, subscribe to classes.

The names are loaded when the first of them is used, so that the command line, and whoever imports
one module, does not pay for all.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from polycast.broker import Broker as Broker
    from polycast.pipeline import Pipeline as Pipeline
    from polycast.public_names import *  # noqa: F403
    from polycast.public_names import __all__ as __all__
    from polycast.testing import TestBus as TestBus
else:
    from polycast.lazy_names import lazy_name as __getattr__

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
