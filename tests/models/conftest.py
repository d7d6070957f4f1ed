def pytest_configure(config):
    config.addinivalue_line(
        "markers", "compile: compiles or exports a whole network; slow (skip with -m 'not compile')"
    )
