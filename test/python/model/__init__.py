"""Random operations on three connections, each judged against a simple model of the promises.

The model knows what a message may do: become ready when it is due, come back when its lease has
expired, die after its last attempt or when its time is over; all else only because somebody has
said so. Of an ordering group one message at a time is under way, and of those that wait the lowest
id is next. Before and after every operation the state is read, on the connection itself and by an
observer who sees what is committed: every difference has to be one that the model allows. So a
message that is lost, doubled, held twice, out of turn or counted wrongly shows at once, with the
steps that led there.
"""
