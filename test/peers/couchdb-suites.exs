# Runs files of CouchDB's tests, and prints a line for each test:
#
#   elixir test/peers/couchdb-suites.exs CHECKOUT FILE …
#
# `suites.mjs` calls it. EX_COUCH_URL, EX_USERNAME and EX_PASSWORD name the server; EX_SERVER=tandem if it is a Tandem rather than a
# CouchDB. The compiled dependencies of the tests are read from the folders below CHECKOUT in which CouchDB's own build stores them.

defmodule Tandem.Peers.Report do
  @moduledoc "Tells what became of each test, for who reads lines."
  use GenServer

  def init(_options), do: {:ok, nil}

  def handle_cast({:test_finished, test}, state) do
    name = test.name |> Atom.to_string() |> String.replace_prefix("test ", "")
    IO.puts("\ntandem-peers\t#{outcome(test.state)}\t#{inspect(test.module)} #{name}")
    {:noreply, state}
  end

  def handle_cast(_event, state), do: {:noreply, state}

  defp outcome(nil), do: "passed"
  defp outcome({kind, _}) when kind in [:excluded, :skipped], do: "left-out"
  defp outcome(_failed), do: "failed"
end

[checkout | files] = System.argv()
root = Path.expand(checkout)

for parent <- ~w(src _build/integration/lib),
    folder <- Path.wildcard("#{root}/#{parent}/*/ebin") do
  Code.append_path(folder)
end

for application <- [:logger, :ibrowse], do: {:ok, _} = Application.ensure_all_started(application)

ExUnit.start(
  autorun: false,
  seed: 0,
  exclude: [:pending],
  formatters: [Tandem.Peers.Report, ExUnit.CLIFormatter]
)

# Tandem's only database of users is `_users`, without the design document that CouchDB writes into it. The tests are changed: those that
# name another database use a new `_users`, their users have a type, and no test waits for the design document.
for_tandem = fn text ->
  text
  |> String.replace(
    ~r/((?:users|auth)_db_name) = random_db_name\(\)/,
    ~S|\1 = Couch.delete("/_users") && "_users"|
  )
  |> String.replace(~s("custom-users"), ~s("_users"))
  |> String.replace(~s[reset_db("_users")], ":ok")
  |> String.replace(~r/(:roles => \[\],)(\s+:password => pass\b)/, ~S|\1 :type => "user",\2|)
  |> String.replace(~r/def wait_for_design_auth\((\w+)\) do/, """
  def wait_for_design_auth(_), do: true
  def wait_for_design_document(\\1) do
  """)
end

is_tandem = System.get_env("EX_SERVER") == "tandem"

compile = fn file ->
  path = "#{root}/#{file}"
  # Replaces the URL of the server in CouchDB's own test runs.
  text =
    path
    |> File.read!()
    |> String.replace("http://127.0.0.1:15984", System.get_env("EX_COUCH_URL"))

  Code.compile_string(if(is_tandem, do: for_tandem.(text), else: text), path)
end

helpers = ~w(lib/couch.ex lib/couch_raw.ex lib/couch/dbtest.ex test/support/couch_test_case.ex)
for file <- helpers, do: compile.("test/elixir/#{file}")

# Tests may have removed `_users`.
if is_tandem, do: apply(Couch, :put, ["/_users"])

for file <- files, do: compile.(file)

ExUnit.run()
