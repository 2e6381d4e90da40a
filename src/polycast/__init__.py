"""polycast: publish objects, subscribe to classes.

The names are loaded when the first of them is used, so that the command line, and whoever imports
one module, does not pay for all.
"""

import typing as _typing

if _typing.TYPE_CHECKING:  # mypy follows no `__all__ += errors.__all__`
    from polycast.broker import Broker as Broker
    from polycast.errors import PolycastError as PolycastError
    from polycast.errors.arguments import *
    from polycast.errors.contexts import *
    from polycast.errors.delivery import *
    from polycast.errors.filters import *
    from polycast.errors.server import *
    from polycast.errors.stores import *
    from polycast.pipeline import Pipeline as Pipeline
    from polycast.public_names import *
    from polycast.public_names import __all__ as __all__
    from polycast.testing import TestBus as TestBus
else:
    from polycast.lazy_names import lazy_name as __getattr__

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
