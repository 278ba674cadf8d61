"""Customers, their orders, and what the desk did about them. Money is in euros."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Sum


class Customer(models.Model):
    """Someone who bought something."""

    name = models.CharField(max_length=100)
    email = models.EmailField(unique=True)
    city = models.CharField(max_length=100)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """One purchase. ``number`` is what customers know it by."""

    class Status(models.TextChoices):
        """How far the parcel is."""

        PACKED = "packed", "packed, not yet sent"
        SENT = "sent", "on its way"
        DELIVERED = "delivered", "delivered"
        RETURNED = "returned", "sent back"

    number = models.PositiveIntegerField(unique=True)
    customer = models.ForeignKey(Customer, on_delete=models.PROTECT, related_name="orders")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.PACKED)
    placed_on = models.DateField()
    promised_for = models.DateField(null=True, blank=True, help_text="The day promised to the customer, if any.")
    delivered_on = models.DateField(null=True, blank=True)

    class Meta:
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"Order {self.number}"

    @property
    def total(self) -> Decimal:
        """What was paid."""
        total: Decimal | None = self.items.aggregate(total=Sum(F("quantity") * F("unit_price")))["total"]
        return (total or Decimal(0)).quantize(Decimal("0.01"))

    @property
    def refunded(self) -> Decimal:
        """What was paid back so far."""
        total: Decimal | None = self.refunds.aggregate(total=Sum("amount"))["total"]
        return (total or Decimal(0)).quantize(Decimal("0.01"))

    @property
    def days_late(self) -> int:
        """Whole days between the promised day and the delivery; 0 when in time or unknown."""
        if not self.promised_for or not self.delivered_on:
            return 0
        return max(0, (self.delivered_on - self.promised_for) // dt.timedelta(days=1))


class OrderItem(models.Model):
    """One line of an order."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="items")
    product = models.CharField(max_length=100)
    quantity = models.PositiveIntegerField(default=1)
    unit_price = models.DecimalField(max_digits=8, decimal_places=2)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.quantity} × {self.product}"


class Refund(models.Model):
    """Money that went back to a customer."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="refunds")
    amount = models.DecimalField(max_digits=8, decimal_places=2, validators=[MinValueValidator(Decimal("0.01"))])
    reason = models.CharField(max_length=200)
    made_for = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        help_text="The agent in whose conversation it was made.",
    )
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-made_at"]

    def __str__(self) -> str:
        return f"€{self.amount} on {self.order}"


class HandOver(models.Model):
    """A case that a colleague has to take on."""

    order = models.ForeignKey(Order, null=True, blank=True, on_delete=models.SET_NULL, related_name="hand_overs")
    note = models.TextField(max_length=1000)
    handed_over_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    handed_over_at = models.DateTimeField(auto_now_add=True)
    done = models.BooleanField(default=False)

    class Meta:
        ordering = ["done", "-handed_over_at"]

    def __str__(self) -> str:
        return f"Case {self.pk}"
