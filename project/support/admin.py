"""The desk's rows in Django's admin, so that one can see what the tools did."""

from __future__ import annotations

from django.contrib import admin

from project.support.models import Customer, HandOver, Order, OrderItem, Refund


class ItemInline(admin.TabularInline):
    """The lines of an order."""

    model = OrderItem
    extra = 0


class RefundInline(admin.TabularInline):
    """What was paid back on an order."""

    model = Refund
    extra = 0
    readonly_fields = ["made_at"]


@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):
    """Customers."""

    list_display = ["name", "email", "city"]
    search_fields = ["name", "email"]


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """Orders with their lines and refunds."""

    list_display = ["number", "customer", "status", "placed_on", "promised_for", "delivered_on"]
    list_filter = ["status"]
    list_select_related = ["customer"]
    search_fields = ["number", "customer__name"]
    inlines = [ItemInline, RefundInline]


@admin.register(Refund)
class RefundAdmin(admin.ModelAdmin):
    """Refunds, newest first."""

    list_display = ["order", "amount", "reason", "made_for", "made_at"]
    list_select_related = ["order", "made_for"]


@admin.register(HandOver)
class HandOverAdmin(admin.ModelAdmin):
    """Cases that wait for a colleague."""

    list_display = ["__str__", "order", "note", "handed_over_by", "handed_over_at", "done"]
    list_filter = ["done"]
