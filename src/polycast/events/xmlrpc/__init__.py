"""Events as XML-RPC values and as XML (API 4.3): what other systems read, and filters look at."""

from polycast.events.xmlrpc.opacity import Opaque
from polycast.events.xmlrpc.reading import from_xmlrpc
from polycast.events.xmlrpc.writing import filterable_xml, to_xmlrpc

__all__ = ["Opaque", "filterable_xml", "from_xmlrpc", "to_xmlrpc"]
