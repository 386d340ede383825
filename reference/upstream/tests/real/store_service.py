"""A shop's read-only web service, on FastAPI, which also writes its OpenAPI schema. Knows nothing of who calls it."""

import os

from fastapi import Depends, FastAPI, HTTPException, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

from serve import serve

app = FastAPI(title="store")
bearer = HTTPBearer()


class Item(BaseModel):
    id: int
    name: str
    price: float | None = None


def customer(credentials: HTTPAuthorizationCredentials = Depends(bearer)) -> None:
    if credentials.credentials != os.environ["STORE_TOKEN"]:
        raise HTTPException(401)


@app.get("/items/{id}", operation_id="get", dependencies=[Depends(customer)])
def get(id: int, currency: str = "EUR") -> Item:
    """Gets one item."""
    if id == 107:
        raise HTTPException(404, f"no item {id}")
    return Item(id=id, name=f"item {id} in {currency}", price=id / 4)


@app.get("/items", operation_id="searchItems", dependencies=[Depends(customer)])
def search_items(q: str, max_results: int = 2) -> list[Item]:
    """Finds items by name."""
    return [Item(id=n, name=f"{q} {n}") for n in range(max_results)]


@app.get("/health", operation_id="health", status_code=204)
def health() -> Response:
    return Response(status_code=204)


@app.post("/items", operation_id="add")
def add(item: Item) -> Item:
    return item


if __name__ == "__main__":
    serve(app, os.environ.get("STORE_CERTIFICATE"))
