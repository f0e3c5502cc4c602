-- Reservo: the sample database of a small house that rents meeting rooms by the hour.
-- Money is in cents (INTEGER). Load it with: sqlite3 reservo.db < reservo.sql

PRAGMA foreign_keys = ON;
BEGIN;

CREATE TABLE rooms (
    id                INTEGER PRIMARY KEY,
    name              TEXT    NOT NULL UNIQUE,
    capacity          INTEGER NOT NULL CHECK (capacity > 0),
    hourly_rate_cents INTEGER NOT NULL CHECK (hourly_rate_cents >= 0)
);

CREATE TABLE members (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    email     TEXT NOT NULL UNIQUE,
    tier      TEXT NOT NULL CHECK (tier IN ('basic', 'pro')),
    joined_on TEXT NOT NULL
);

CREATE TABLE bookings (
    id        INTEGER PRIMARY KEY,
    room_id   INTEGER NOT NULL REFERENCES rooms (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    starts_at TEXT    NOT NULL,
    hours     INTEGER NOT NULL CHECK (hours > 0),
    status    TEXT    NOT NULL CHECK (status IN ('confirmed', 'completed', 'cancelled'))
);

CREATE TABLE payments (
    id           INTEGER PRIMARY KEY,
    booking_id   INTEGER NOT NULL UNIQUE REFERENCES bookings (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0),
    method       TEXT    NOT NULL CHECK (method IN ('card', 'transfer', 'invoice')),
    paid_on      TEXT    NOT NULL
);

CREATE INDEX bookings_by_room ON bookings (room_id, starts_at);
CREATE INDEX bookings_by_member ON bookings (member_id);

INSERT INTO rooms VALUES
    (1, 'Focus', 2, 1500),
    (2, 'Studio', 4, 2500),
    (3, 'Boardroom', 10, 6000),
    (4, 'Lounge', 6, 4000),
    (5, 'Phone Booth', 1, 800);

INSERT INTO members VALUES
    (1, 'Amara Okafor', 'amara@example.com', 'pro', '2024-01-09'),
    (2, 'Bruno Keller', 'bruno@example.com', 'basic', '2024-02-17'),
    (3, 'Chidi Nwosu', 'chidi@example.com', 'basic', '2024-03-03'),
    (4, 'Dalia Haddad', 'dalia@example.com', 'pro', '2024-03-28'),
    (5, 'Elin Sundqvist', 'elin@example.com', 'pro', '2024-05-14'),
    (6, 'Farid Rahimi', 'farid@example.com', 'basic', '2024-06-30'),
    (7, 'Greta Lindholm', 'greta@example.com', 'pro', '2024-08-11'),
    (8, 'Hugo Martins', 'hugo@example.com', 'basic', '2024-09-22');

INSERT INTO bookings VALUES
    (1, 1, 2, '2025-03-03 09:00', 2, 'completed'),
    (2, 2, 1, '2025-03-03 10:00', 3, 'completed'),
    (3, 3, 4, '2025-03-03 13:00', 2, 'completed'),
    (4, 4, 5, '2025-03-04 09:00', 4, 'completed'),
    (5, 2, 7, '2025-03-04 14:00', 2, 'completed'),
    (6, 5, 3, '2025-03-05 11:00', 1, 'completed'),
    (7, 1, 6, '2025-03-05 09:00', 3, 'completed'),
    (8, 3, 1, '2025-03-06 10:00', 4, 'completed'),
    (9, 4, 8, '2025-03-06 15:00', 2, 'cancelled'),
    (10, 2, 5, '2025-03-07 09:00', 2, 'completed'),
    (11, 5, 2, '2025-03-07 16:00', 1, 'completed'),
    (12, 3, 7, '2025-03-10 09:00', 3, 'completed'),
    (13, 1, 3, '2025-03-10 13:00', 2, 'completed'),
    (14, 4, 4, '2025-03-11 10:00', 3, 'completed'),
    (15, 2, 8, '2025-03-11 14:00', 2, 'completed'),
    (16, 1, 1, '2025-03-12 09:00', 1, 'cancelled'),
    (17, 3, 5, '2025-03-12 11:00', 2, 'completed'),
    (18, 4, 7, '2025-03-13 13:00', 4, 'completed'),
    (19, 2, 6, '2025-03-13 09:00', 3, 'confirmed'),
    (20, 5, 4, '2025-03-14 10:00', 1, 'confirmed'),
    (21, 3, 1, '2025-03-17 09:00', 4, 'confirmed'),
    (22, 1, 8, '2025-03-17 14:00', 2, 'confirmed'),
    (23, 4, 2, '2025-03-18 10:00', 2, 'confirmed');

INSERT INTO payments VALUES
    (1, 1, 3000, 'card', '2025-03-03'),
    (2, 2, 7500, 'card', '2025-03-03'),
    (3, 3, 12000, 'transfer', '2025-03-03'),
    (4, 4, 16000, 'card', '2025-03-04'),
    (5, 5, 5000, 'invoice', '2025-03-04'),
    (6, 6, 800, 'card', '2025-03-05'),
    (7, 7, 4500, 'card', '2025-03-05'),
    (8, 8, 24000, 'transfer', '2025-03-06'),
    (9, 10, 5000, 'card', '2025-03-07'),
    (10, 11, 800, 'invoice', '2025-03-07'),
    (11, 12, 18000, 'card', '2025-03-10'),
    (12, 13, 3000, 'card', '2025-03-10'),
    (13, 14, 12000, 'transfer', '2025-03-11'),
    (14, 15, 5000, 'card', '2025-03-11'),
    (15, 17, 12000, 'invoice', '2025-03-12'),
    (16, 18, 16000, 'card', '2025-03-13');

COMMIT;
