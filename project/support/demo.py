"""What the demo needs in the database: people, an engine, and a few hundred rows that look lived in.

Everything here may run again: what exists stays as it is, only the engine's model follows the environment.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.utils import timezone

from project.support.models import Customer, Order, OrderItem, Refund

PASSWORD = "demo"
FIRST, ORDERS = 1001, 200
CHAT = ["chat"]
DECIDE = ["chat", "decide_toolcall", "view_session"]
PEOPLE = {
    "agent": ("Alex", "Winter", "Support agents", CHAT),
    "approver": ("Kim", "Berger", "Approvers", DECIDE),
    "admin": ("Robin", "Chief", "", []),
}

GIVEN = ["Anna", "Ben", "Clara", "David", "Elif", "Finn", "Greta", "Hugo", "Ines", "Jonas", "Katja", "Leo", "Mara"]
FAMILY = ["Weber", "Koch", "Moreau", "Nowak", "Peters", "Rossi"]
CITIES = ["Vienna", "Graz", "Berlin", "Ghent", "Lyon", "Porto", "Turin", "Basel"]
PRODUCTS = [
    ("Stoneware cup", "24.50"),
    ("Teapot, 1 litre", "89.00"),
    ("Green tea, 250 g", "12.50"),
    ("Linen tablecloth", "54.00"),
    ("Oak tray", "38.90"),
    ("Set of four bowls", "49.00"),
    ("Wool blanket", "119.00"),
    ("Beeswax candles", "9.80"),
]


@transaction.atomic
def make_people() -> None:
    """The three logins, their groups and permissions."""
    users = get_user_model()
    for username, (first, last, group_name, codenames) in PEOPLE.items():
        user, created = users.objects.get_or_create(
            username=username,
            defaults={
                "first_name": first,
                "last_name": last,
                "email": f"{username}@shop.example",
                "is_superuser": username == "admin",
                "is_staff": username != "agent",
            },
        )
        if created:
            user.set_password(PASSWORD)
            user.save()
        if group_name:
            group, _ = Group.objects.get_or_create(name=group_name)
            group.permissions.add(
                *Permission.objects.filter(content_type__app_label="allm_django", codename__in=codenames)
            )
            user.groups.add(group)


@transaction.atomic
def make_rows() -> int:
    """Customers and orders, the same ones each time, with dates that end today; none if there are some already.

    Returns the number of orders made.
    """
    if Order.objects.exists():
        return 0
    dice = random.Random(1042)
    customers = Customer.objects.bulk_create(
        Customer(name=f"{given} {family}", email=f"{given}.{family}@mail.example".lower(), city=dice.choice(CITIES))
        for given in GIVEN
        for family in FAMILY
    )
    for number in range(FIRST, FIRST + ORDERS):
        make_order(number, dice.choice(customers), dice)
    tell_the_stories()
    return ORDERS


def make_order(number: int, customer: Customer, dice: random.Random) -> None:
    """One order with its items; the higher its number, the younger and less far it is."""
    age = (FIRST + ORDERS - number) // 4
    placed = timezone.localdate() - dt.timedelta(days=age)
    status = Order.Status.PACKED if age < 3 else Order.Status.SENT if age < 7 else Order.Status.DELIVERED
    if status == Order.Status.DELIVERED and dice.random() < 0.06:
        status = Order.Status.RETURNED
    promised = placed + dt.timedelta(days=5)
    arrived = None if age < 7 else placed + dt.timedelta(days=dice.choice([3, 4, 4, 5, 5, 6, 7]))
    order = Order.objects.create(
        number=number, customer=customer, status=status, placed_on=placed, promised_for=promised, delivered_on=arrived
    )
    for product, price in dice.sample(PRODUCTS, dice.randint(1, 3)):
        OrderItem.objects.create(order=order, product=product, quantity=dice.randint(1, 3), unit_price=Decimal(price))
    if status == Order.Status.RETURNED:
        Refund.objects.create(order=order, amount=order.total, reason="Sent back unused")


def tell_the_stories() -> None:
    """The two orders that the examples speak of: 1042 came late and in pieces, 1051 has no day yet."""
    today = timezone.localdate()
    late = Order.objects.get(number=1042)
    late.refunds.all().delete()
    late.items.all().delete()
    late.status, late.placed_on = Order.Status.DELIVERED, today - dt.timedelta(days=9)
    late.promised_for, late.delivered_on = today - dt.timedelta(days=4), today - dt.timedelta(days=1)
    late.save()
    OrderItem.objects.create(order=late, product="Stoneware cup", quantity=2, unit_price=Decimal("24.50"))
    OrderItem.objects.create(order=late, product="Teapot, 1 litre", quantity=1, unit_price=Decimal("89.00"))
    open_ended = Order.objects.get(number=1051)
    open_ended.refunds.all().delete()
    open_ended.status, open_ended.placed_on = Order.Status.PACKED, today - dt.timedelta(days=1)
    open_ended.promised_for = open_ended.delivered_on = None
    open_ended.save()
