"""How the US sees events of the supply chain, written by hand: only what comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supply_chain import events, us
from supply_chain.us import from_reference_address, to_dollars


def spec_to_us(spec: events.Specification) -> us.USSpecification:
    return us.USSpecification(
        spec.weight / 0.45359237,
        spec.height / 0.0254,
        spec.width / 0.0254,
        spec.depth / 0.0254,
    )


def line_to_us(line: events.Line) -> us.USLine:
    return us.USLine(line.product, line.family, line.quantity, to_dollars(line.unit_price))


def lines_to_us(lines: list[events.Line]) -> list[us.USLine]:
    return [line_to_us(line) for line in lines]


def item_to_us(item: events.Item) -> us.USItem:
    return us.USItem(item.product, item.family, item.quantity, item.tag, spec_to_us(item.spec))


def items_to_us(items: list[events.Item]) -> list[us.USItem]:
    return [item_to_us(item) for item in items]


def desk_to_us(desk: events.CashDesk) -> us.USCashDesk:
    return us.USCashDesk(desk.number, desk.units, to_dollars(desk.revenue))


def product_to_us(product: events.ProductDescription) -> us.USProductDescription:
    return us.USProductDescription(product.product, product.name, spec_to_us(product.spec))


def to_miles(kilometres: float) -> float:
    return kilometres / 1.609344


def head(event: events.Event) -> dict[str, Any]:
    return {
        "sender": event.sender,
        "receiver": event.receiver,
        "region": event.region,
        "sent": event.sent,
    }


def order_head(event: events.OrderEvent) -> dict[str, Any]:
    return {**head(event), "order": event.order}


def shipment_head(event: events.Shipment) -> dict[str, Any]:
    return {**order_head(event), "lorry": event.lorry}


def purchase_head(event: events.PurchaseEvent) -> dict[str, Any]:
    return {**head(event), "purchase": event.purchase, "family": event.family}


def statistics_head(event: events.Statistics) -> dict[str, Any]:
    return {**head(event), "family": event.family, "units": event.units}


def order_to_us(event: events.Order) -> us.USOrder:
    return us.USOrder(
        **order_head(event),
        lines=lines_to_us(event.lines),
        deliver_to=from_reference_address(event.deliver_to),
        urgency=event.urgency,
    )


def order_confirmation_to_us(event: events.OrderConfirmation) -> us.USOrderConfirmation:
    return us.USOrderConfirmation(
        **order_head(event),
        lines=lines_to_us(event.lines),
        deliver_to=from_reference_address(event.deliver_to),
        total=to_dollars(event.total),
        expected=event.expected,
    )


def departure_to_us(event: events.ShipmentDeparture) -> us.USShipmentDeparture:
    return us.USShipmentDeparture(**shipment_head(event), items=items_to_us(event.items))


def shipment_to_us(event: events.ShipmentInformation) -> us.USShipmentInformation:
    return us.USShipmentInformation(
        **shipment_head(event),
        items=items_to_us(event.items),
        origin=from_reference_address(event.origin),
        deliver_to=from_reference_address(event.deliver_to),
        distance=to_miles(event.distance),
        value=to_dollars(event.value),
    )


def shipment_confirmation_to_us(event: events.ShipmentConfirmation) -> us.USShipmentConfirmation:
    return us.USShipmentConfirmation(
        **order_head(event), received=lines_to_us(event.received), hours_late=event.hours_late
    )


def call_to_us(event: events.CallForOffers) -> us.USCallForOffers:
    return us.USCallForOffers(
        **purchase_head(event),
        lines=lines_to_us(event.lines),
        deliver_to=from_reference_address(event.deliver_to),
    )


def offer_to_us(event: events.Offer) -> us.USOffer:
    return us.USOffer(
        **purchase_head(event),
        lines=lines_to_us(event.lines),
        total=to_dollars(event.total),
        valid_until=event.valid_until,
    )


def purchase_to_us(event: events.PurchaseOrder) -> us.USPurchaseOrder:
    return us.USPurchaseOrder(
        **purchase_head(event),
        lines=lines_to_us(event.lines),
        deliver_to=from_reference_address(event.deliver_to),
        bill_to=from_reference_address(event.bill_to),
    )


def purchase_confirmation_to_us(event: events.PurchaseConfirmation) -> us.USPurchaseConfirmation:
    return us.USPurchaseConfirmation(
        **purchase_head(event), lines=lines_to_us(event.lines), total=to_dollars(event.total)
    )


def invoice_to_us(event: events.Invoice) -> us.USInvoice:
    return us.USInvoice(
        **purchase_head(event),
        lines=lines_to_us(event.lines),
        total=to_dollars(event.total),
        bill_to=from_reference_address(event.bill_to),
    )


def purchase_shipment_to_us(event: events.PurchaseShipment) -> us.USPurchaseShipment:
    return us.USPurchaseShipment(
        **purchase_head(event), items=items_to_us(event.items), distance=to_miles(event.distance)
    )


def purchase_shipment_confirmation_to_us(
    event: events.PurchaseShipmentConfirmation,
) -> us.USPurchaseShipmentConfirmation:
    return us.USPurchaseShipmentConfirmation(**purchase_head(event), items=items_to_us(event.items))


def price_update_to_us(event: events.PriceUpdate) -> us.USPriceUpdate:
    return us.USPriceUpdate(
        **head(event),
        product=event.product,
        family=event.family,
        before=to_dollars(event.before),
        price=to_dollars(event.price),
    )


def movement_to_us(event: events.InventoryMovement) -> us.USInventoryMovement:
    return us.USInventoryMovement(
        **head(event), family=event.family, items=items_to_us(event.items), left=event.left
    )


def sales_to_us(event: events.SalesStatistics) -> us.USSalesStatistics:
    return us.USSalesStatistics(
        **statistics_head(event),
        revenue=to_dollars(event.revenue),
        cash_desks=[desk_to_us(desk) for desk in event.cash_desks],
    )


def order_statistics_to_us(event: events.OrderStatistics) -> us.USOrderStatistics:
    return us.USOrderStatistics(
        **statistics_head(event), revenue=to_dollars(event.revenue), order=event.order
    )


def shipment_statistics_to_us(event: events.ShipmentStatistics) -> us.USShipmentStatistics:
    return us.USShipmentStatistics(**statistics_head(event), items=items_to_us(event.items))


def announcement_to_us(event: events.ProductAnnouncement) -> us.USProductAnnouncement:
    return us.USProductAnnouncement(
        **head(event),
        products=[product_to_us(product) for product in event.products],
        family=event.family,
    )


TRANSLATIONS: dict[type, Callable[[Any], events.Event]] = {
    events.Order: order_to_us,
    events.OrderConfirmation: order_confirmation_to_us,
    events.ShipmentDeparture: departure_to_us,
    events.ShipmentInformation: shipment_to_us,
    events.ShipmentConfirmation: shipment_confirmation_to_us,
    events.CallForOffers: call_to_us,
    events.Offer: offer_to_us,
    events.PurchaseOrder: purchase_to_us,
    events.PurchaseConfirmation: purchase_confirmation_to_us,
    events.Invoice: invoice_to_us,
    events.PurchaseShipment: purchase_shipment_to_us,
    events.PurchaseShipmentConfirmation: purchase_shipment_confirmation_to_us,
    events.PriceUpdate: price_update_to_us,
    events.InventoryMovement: movement_to_us,
    events.SalesStatistics: sales_to_us,
    events.OrderStatistics: order_statistics_to_us,
    events.ShipmentStatistics: shipment_statistics_to_us,
    events.ProductAnnouncement: announcement_to_us,
}


def translate(event: events.Event) -> events.Event:
    found = TRANSLATIONS.get(type(event))
    return event if found is None else found(event)
