"""What the page shows when something is wrong, and that it recovers."""

from collections.abc import Callable

from tests.serve.page.tab import Tab


def answer_with(tab: Tab, address: str, status: int, code: str, message: str, times: int | None = None) -> None:
    error = {"status": status, "json": {"error": {"code": code, "message": message}}}
    tab.page.route(address, lambda route: route.fulfill(**error), times=times)


def wait_until(tab: Tab, is_so: Callable[[], object]) -> None:
    """The page's policy forbids playwright's own way to wait for an expression."""
    for _ in range(150):
        if is_so():
            return
        tab.page.wait_for_timeout(100)
    raise AssertionError("It never was.")


def test_without_a_connection_the_page_says_so_and_recovers(tab):
    tab.wait_for_results()
    tab.context.set_offline(True)
    tab.page.locator("#grid .card").first.click()
    tab.page.get_by_text("This device is offline.").wait_for()
    assert "No connection" in tab.message()
    tab.context.set_offline(False)
    tab.wait_for_results("11 results")
    assert tab.message() == ""


def test_a_service_that_does_not_answer(tab):
    tab.wait_for_results()
    tab.page.route("**/similar*", lambda route: route.abort(), times=1)
    tab.page.locator("#grid .card").first.click()
    tab.page.get_by_text("The service does not answer.").wait_for()
    tab.wait_for_results("11 results")


def test_a_service_that_starts_is_waited_for(open_tab, site):
    tab = open_tab(site.url, "/docs")
    answer_with(tab, "**/v1/info", 503, "starting", "The model and the index are still being loaded.", times=1)
    tab.go("/?item=3")
    tab.page.get_by_text("still being loaded").wait_for()
    tab.wait_for_results("11 results")


def test_an_answer_of_something_else_is_no_crash(tab):
    tab.wait_for_results()
    tab.page.route("**/similar*", lambda route: route.fulfill(status=200, body="<html>Log in</html>"))
    tab.page.locator("#grid .card").first.click()
    tab.page.get_by_text("cannot be read (200)").wait_for()
    tab.page.unroute("**/similar*")
    tab.page.get_by_role("button", name="Load the page again").click()
    tab.wait_for_results("11 results")


def test_a_proxy_that_does_not_reach_the_service_is_waited_for(tab):
    tab.wait_for_results()
    tab.page.route("**/similar*", lambda route: route.fulfill(status=502, body="<html>Bad gateway</html>"), times=1)
    tab.page.locator("#grid .card").first.click()
    tab.page.get_by_text("The service cannot be reached (502). This page tries again by itself.").wait_for()
    tab.wait_for_results("11 results")


def test_while_it_searches_the_page_says_so(tab):
    tab.wait_for_results()
    tab.page.route("**/similar*", lambda route: None)  # never answered
    tab.page.locator("#grid .card").first.click()
    tab.page.locator("#results[aria-busy=true] .waiting").first.wait_for()
    assert tab.page.locator("#results-title").inner_text() == "Searching …"
    tab.page.go_back()  # does not wait for the answer
    tab.wait_for_results("From the collection")


def test_a_search_that_is_overtaken_changes_nothing(tab):
    """The answer of the first search arrives after that of the second."""
    held = []
    tab.wait_for_results()
    tab.page.route("**/v1/items/3/similar*", lambda route: held.append(route))
    tab.page.locator("[data-item='3']").click()
    tab.page.locator("#results[aria-busy=true]").wait_for()
    tab.page.go_back()
    tab.wait_for_results("From the collection")
    tab.page.locator("[data-item='4']").click()
    tab.wait_for_results("11 results")
    before = tab.ids()
    for route in held:
        route.abort()
    tab.page.wait_for_timeout(200)
    assert tab.ids() == before
    assert tab.message() == ""


HOLD_PREVIEWS = """const real = createImageBitmap;
window.createImageBitmap = (...given) => new Promise((resolve) => {
  const done = () => { window.wentOn = true; };
  window.goOn = () => real(...given).then((made) => { resolve(made); setTimeout(done, 200); });
});"""


def test_a_picture_that_is_read_slowly_does_not_return_after_another_search(open_tab, site, photo):
    tab = open_tab(site.url, "/docs")
    tab.page.add_init_script(HOLD_PREVIEWS)
    tab.go("/")
    tab.wait_for_results()
    tab.give("drop", photo)
    wait_until(tab, lambda: tab.page.evaluate("'goOn' in window"))
    tab.page.evaluate("history.pushState(null, '', '?item=3'); dispatchEvent(new PopStateEvent('popstate'))")
    tab.wait_for_results("11 results")
    tab.page.evaluate("window.goOn()")
    wait_until(tab, lambda: tab.page.evaluate("'wentOn' in window"))
    assert tab.page.locator("#query .query-kind").inner_text().lower() == "similar to"
    assert tab.query() == "?item=3"


def test_trying_again_ends_when_something_else_is_asked_for(tab):
    """The page asked whether the service is ready, and then repeated a request that was not wanted any more."""
    tab.wait_for_results()
    held = []
    tab.page.route("**/ready", lambda route: held.append(route))
    answer_with(tab, "**/v1/sample*", 503, "starting", "The model and the index are still being loaded.", times=1)
    tab.page.click("#home")
    tab.page.get_by_text("still being loaded").wait_for()
    wait_until(tab, lambda: held)
    tab.page.click("#by-code-title")
    tab.page.fill("#code-text", "0000")
    tab.page.press("#code-text", "Enter")
    tab.wait_for_results("12 results")
    held[0].continue_()
    tab.page.wait_for_timeout(500)
    assert tab.page.locator("#results-title").inner_text() == "12 results"
    assert tab.query() == "?code=0000"
