"""Events as XML-RPC values and as XML (API 4.3), for other systems and for XPath filters."""

from polycast.formats.xmlrpc.event_reader import from_xmlrpc
from polycast.formats.xmlrpc.value_forms import Opaque, filterable_xml, to_xmlrpc

__all__ = ["Opaque", "filterable_xml", "from_xmlrpc", "to_xmlrpc"]
